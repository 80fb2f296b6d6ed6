// A stock endpoint that serves tenzro/moe: answers every stream with its own bytes, until its
// standard input ends. Prints its id and its address, a line each.
import { Endpoint, RelayMode } from '@number0/iroh';

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

async function serve(incoming) {
  const connection = await (await incoming.accept()).connect();
  for (;;) {
    const stream = await connection.acceptBi();
    const request = await stream.recv.readToEnd(limit);
    await stream.send.writeAll(request);
    await stream.send.finish();
  }
}

for (;;) {
  const incoming = await endpoint.acceptNext();
  if (!incoming) break;
  serve(incoming).catch(() => {});
}
