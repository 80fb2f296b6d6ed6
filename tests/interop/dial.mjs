// A stock endpoint that dials tenzro/moe: node dial.mjs ID PORT BYTES. Opens a stream, sends that
// many bytes, and expects them back; then a second one on the same connection. Prints "same" or
// what went wrong.
import { Endpoint, EndpointAddr, EndpointId, RelayMode } from '@number0/iroh';

const [, , id, port, size] = process.argv;
const alpn = [...Buffer.from('tenzro/moe')];
const builder = Endpoint.builder();
builder.applyMinimal();
builder.relayMode(RelayMode.disabled());
builder.bindAddr('127.0.0.1:0');
builder.alpns([alpn]);
const endpoint = await builder.bind();
console.log(endpoint.id().toString());
try {
  const address = new EndpointAddr(EndpointId.fromString(id), null, ['127.0.0.1:' + port]);
  const connection = await endpoint.connect(address, alpn);
  if (connection.remoteId().toString() !== id) throw new Error('another id answered');
  for (let call = 0; call < 2; ++call) {
    const request = Buffer.alloc(Number(size), (_, i) => i);
    for (let i = 0; i < request.length; ++i) request[i] = (i * 31 + call) & 255;
    const stream = await connection.openBi();
    await stream.send.writeAll([...request]);
    await stream.send.finish();
    const reply = Buffer.from(await stream.recv.readToEnd(8 << 20));
    if (!reply.equals(request)) throw new Error('another reply of ' + reply.length + ' bytes');
  }
  connection.close(0n, [...Buffer.from('done')]);
  console.log('same');
} catch (error) {
  console.log('failed: ' + (error.message || error));
}
await endpoint.close();
