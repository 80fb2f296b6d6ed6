#include "tenzro/receipts/receipt.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/receipts/commitment.hpp"

namespace tenzro::receipts {
namespace {

void append_hash(std::vector<std::uint8_t>& out, const Hash32& hash) {
  out.insert(out.end(), hash.begin(), hash.end());
}

Status refused(const Execution& execution, std::string detail) {
  return fail(ErrorCode::runtime,
              "expert " + std::to_string(execution.layer) + '/' + std::to_string(execution.expert) +
                  " receipt",
              std::move(detail));
}

}  // namespace

std::vector<std::uint8_t> signing_payload(const Execution& execution, const Hash32& input_hash,
                                          const Hash32& commitment) {
  TENZRO_ASSERT(execution.model.size() <= kModelIdBytesMax);
  TENZRO_ASSERT(execution.token_indices.size() <= UINT32_MAX);
  std::vector<std::uint8_t> payload;
  append_text(payload, "tenzro/moe/receipt");
  append_u32_le(payload, static_cast<std::uint32_t>(execution.model.size()));
  append_text(payload, execution.model);
  append_u32_le(payload, execution.layer);
  append_u32_le(payload, execution.expert);
  append_u32_le(payload, static_cast<std::uint32_t>(execution.token_indices.size()));
  for (const std::uint32_t token : execution.token_indices) append_u32_le(payload, token);
  append_hash(payload, input_hash);
  append_hash(payload, commitment);
  return payload;
}

Receipt make_receipt(const crypto::KeyPair& key, const Execution& execution,
                     std::span<const float> outputs) {
  Receipt receipt;
  receipt.provider = key.address();
  receipt.public_key = key.public_key();
  receipt.input_hash = carrier_hash(execution.carrier_kind, execution.carrier);
  receipt.commitment =
      commitment_of(make_sketch(execution.token_indices, outputs, execution.d_model));
  receipt.signature = key.sign(signing_payload(execution, receipt.input_hash, receipt.commitment));
  return receipt;
}

Status verify_receipt(const Execution& execution, const ProviderAddress& planned,
                      const Reply& reply) {
  if (!reply.receipt) return refused(execution, "holder returned no execution receipt");
  const Receipt& receipt = *reply.receipt;
  if (receipt.provider != planned) {
    return refused(execution, "receipt bound to a different provider");
  }
  if (!std::equal(reply.token_indices.begin(), reply.token_indices.end(),
                  execution.token_indices.begin(), execution.token_indices.end())) {
    return refused(execution, "response token set differs from request");
  }
  const auto wanted = checked_mul(reply.token_indices.size(), execution.d_model);
  if (!wanted || reply.outputs.size() != *wanted) {
    return refused(execution, "output length " + std::to_string(reply.outputs.size()) +
                                  " does not match " + std::to_string(reply.token_indices.size()) +
                                  " tokens x d_model " + std::to_string(execution.d_model));
  }
  if (receipt.input_hash != carrier_hash(execution.carrier_kind, execution.carrier)) {
    return refused(execution, "expert receipt: input hash mismatch");
  }
  const Sketch sketch = make_sketch(reply.token_indices, reply.outputs, execution.d_model);
  if (receipt.commitment != commitment_of(sketch)) {
    return refused(execution, "expert receipt: activation commitment mismatch");
  }
  const auto payload = signing_payload(execution, receipt.input_hash, receipt.commitment);
  if (!crypto::verify(receipt.public_key, payload, receipt.signature)) {
    return refused(execution, "expert receipt: bad signature");
  }
  if (crypto::address_of(receipt.public_key) != receipt.provider) {
    return refused(execution, "expert receipt: public key does not belong to the provider");
  }
  return {};
}

}  // namespace tenzro::receipts
