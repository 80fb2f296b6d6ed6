// A stock endpoint that serves tenzro/moe: node moe_server.mjs RPC. What it is asked it asks the
// node at http://RPC over JSON-RPC, moe/execute as tenzro_moeExecute and moe/status as
// tenzro_moeExpertStatus, and frames the answer. Ends with its standard input. Prints its id and its
// address, a line each.
import { Endpoint, RelayMode } from '@number0/iroh';

const methods = { 'moe/execute': 'tenzro_moeExecute', 'moe/status': 'tenzro_moeExpertStatus' };
const [, , rpc] = process.argv;
const alpn = [...Buffer.from('tenzro/moe')];
const limit = 8 << 20;
const builder = Endpoint.builder();
builder.applyMinimal();
builder.relayMode(RelayMode.disabled());
builder.bindAddr('127.0.0.1:0');
builder.alpns([alpn]);
const endpoint = await builder.bind();
console.log(endpoint.id().toString());
console.log(endpoint.boundSockets().map(String).find((text) => text.startsWith('127.')));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));

async function reply(frame) {
  if (frame.length < 4 || frame.readUInt32LE() !== frame.length - 4) throw new Error('no frame');
  const request = JSON.parse(frame.subarray(4).toString());
  const answer = await fetch('http://' + rpc, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...request, method: methods[request.method] ?? request.method }),
  });
  const body = Buffer.from(await answer.text());
  const length = Buffer.alloc(4);
  length.writeUInt32LE(body.length);
  return Buffer.concat([length, body]);
}

async function serveStream(stream) {
  const bytes = await reply(Buffer.from(await stream.recv.readToEnd(limit)));
  await stream.send.writeAll([...bytes]);
  await stream.send.finish();
}

async function serve(incoming) {
  const connection = await (await incoming.accept()).connect();
  for (;;) {
    const stream = await connection.acceptBi();
    serveStream(stream).catch((error) => console.error(String(error.message || error)));
  }
}

for (;;) {
  const incoming = await endpoint.acceptNext();
  if (!incoming) break;
  serve(incoming).catch(() => {});
}
