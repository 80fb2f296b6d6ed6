// A stock endpoint that calls tenzro/moe: node moe_client.mjs ID PORT. Prints its id; then reads
// lines {"connection": "kept" | "new", "calls": [...]} and answers each with one line, a list as
// long as "calls". All calls of a line are under way together, each on a stream of its own: of one
// connection, or of a new one a call.
// A call is {"text": JSON text} (framed here) or {"bytes": base64} (sent as they are); an answer is
// {"text": what the reply's frame held} or {"error": what went wrong}.
import { createInterface } from 'node:readline';
import { Endpoint, EndpointAddr, EndpointId, RelayMode } from '@number0/iroh';

const [, , id, port] = process.argv;
const alpn = [...Buffer.from('tenzro/moe')];
const limit = 8 << 20;
const builder = Endpoint.builder();
builder.applyMinimal();
builder.relayMode(RelayMode.disabled());
builder.bindAddr('127.0.0.1:0');
builder.alpns([alpn]);
const endpoint = await builder.bind();
console.log(endpoint.id().toString());

const dial = () =>
  endpoint.connect(new EndpointAddr(EndpointId.fromString(id), null, ['127.0.0.1:' + port]), alpn);

function framed(text) {
  const body = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(body.length);
  return Buffer.concat([length, body]);
}

function unframed(bytes) {
  if (bytes.length < 4 || bytes.readUInt32LE() !== bytes.length - 4) {
    throw new Error('a reply of ' + bytes.length + ' bytes that is no frame');
  }
  return bytes.subarray(4).toString();
}

async function answer(connection, call) {
  const request = call.bytes === undefined ? framed(call.text) : Buffer.from(call.bytes, 'base64');
  try {
    const stream = await connection.openBi();
    await stream.send.writeAll([...request]);
    await stream.send.finish();
    return { text: unframed(Buffer.from(await stream.recv.readToEnd(limit))) };
  } catch (error) {
    return { error: String(error.message || error) };
  }
}

async function answerAlone(call) {
  const connection = await dial();
  const reply = await answer(connection, call);
  connection.close(0n, [...Buffer.from('done')]);
  return reply;
}

let kept;
for await (const line of createInterface({ input: process.stdin })) {
  const { connection, calls } = JSON.parse(line);
  if (connection === 'kept') kept ??= await dial();
  const answers = calls.map((call) => (connection === 'kept' ? answer(kept, call) : answerAlone(call)));
  console.log(JSON.stringify(await Promise.all(answers)));
}
process.exit(0);
