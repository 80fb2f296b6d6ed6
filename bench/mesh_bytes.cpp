#include "mesh_bytes.hpp"

#include <cstdlib>
#include <vector>

#include "tenzro/receipts/receipt_json.hpp"
#include "tenzro/rpc/exchange.hpp"
#include "tenzro/rpc/execute_client.hpp"
#include "tenzro/wire/exec_message.hpp"

namespace tenzro::bench {
namespace {

/// Stands for a hash, a key or a signature: its bytes are no default that a format leaves out.
template <typename Bytes>
Bytes filled() {
  Bytes bytes{};
  bytes.fill(0xA5);
  return bytes;
}

std::size_t size_of(const std::vector<BufferRef>& parts) {
  std::size_t size = 0;
  for (const BufferRef& part : parts) size += part.size();
  return size;
}

BufferRef zero_rows(std::size_t bytes) {
  return BufferRef::copy_of(std::vector<std::byte>(bytes));
}

}  // namespace

std::size_t exec_bytes(const TokenLayer& layer, bool is_q8) {
  const std::size_t row_bytes = std::size_t{layer.width} * sizeof(float);
  const std::uint32_t experts = layer.top_k / layer.holders;
  wire::ExecRequest request{.layer = {"model", 1},
                            .is_q8 = is_q8,
                            .width = layer.width,
                            .nonce = filled<wire::ExecNonce>(),
                            .budget_ms = 1000,
                            .tokens = {0}};
  request.rows = zero_rows(wire::exec_carrier_bytes(1, layer.width, is_q8).value_or(0));
  wire::ExecReply reply{.key = filled<EndpointId>()};
  reply.signature.fill(0xA5);
  for (ExpertIndex expert = 0; expert < experts; ++expert) {
    request.batches.push_back({expert, {0}, filled<BlobHash>()});
    reply.receipts.push_back({.expert = expert,
                              .rows = 1,
                              .input_hash = filled<Hash32>(),
                              .commitment = filled<Hash32>(),
                              .rows_hash = filled<Hash32>(),
                              .blob = filled<BlobHash>()});
    reply.rows.push_back(zero_rows(row_bytes));
  }
  const auto sent = wire::encode_exec_request(request);
  if (!sent) std::abort();
  return layer.holders * (size_of(*sent) + size_of(wire::encode_exec_reply(reply)));
}

std::size_t json_bytes(const TokenLayer& layer) {
  const Base64Kernels& base64 = scalar_base64_kernels();
  const BufferRef row = zero_rows(std::size_t{layer.width} * sizeof(float));
  const rpc::ExecuteRequest request{
      .key = {"model", 1, 1}, .d_model = layer.width, .token_indices = {0}, .carrier = row};
  const BufferRef sent = rpc::encode_execute_request("tenzro_moeExecute", request, base64);
  rpc::Exchange exchange = rpc::Exchange::parse(sent, {});
  if (!exchange.take_call(0)) std::abort();
  const receipts::Receipt receipt{.provider = filled<ProviderAddress>(),
                                  .input_hash = filled<Hash32>(),
                                  .commitment = filled<Hash32>(),
                                  .signature = filled<crypto::Signature>(),
                                  .public_key = filled<EndpointId>()};
  exchange.set_outcome(0, rpc::ExecuteAnswer{.key = request.key,
                                             .d_model = layer.width,
                                             .token_indices = {0},
                                             .outputs = row,
                                             .receipt_json = receipts::receipt_to_json(receipt)});
  return layer.top_k * (sent.size() + exchange.encode(base64).size());
}

}  // namespace tenzro::bench
