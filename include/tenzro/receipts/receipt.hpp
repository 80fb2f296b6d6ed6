#pragma once
/// \file
/// Execution receipts, version 1: a holder's signed word that it ran an expert on these inputs and
/// got outputs with this sketch.
///
/// Signing payload: "tenzro/moe/receipt", u32 len(model_id), model_id, u32 layer, u32 expert, u32
/// tokens, u32 token_index..., input_hash[32], commitment[32]; integers little-endian; signed
/// directly with Ed25519. Vectors: proto/vectors/receipts_v1.json.
///
/// A router verifies in this order, and the first failure is the verdict: a receipt is there; it
/// names the planned holder; the reply's tokens are the request's; the outputs have their length;
/// the input hash is that of the carrier sent; the commitment is that of the outputs received; the
/// signature is good; the public key belongs to the provider.
/// Why the last check, which the wire format does not ask for: provider and key are not in the
/// payload, so without it any key would pass with the planned holder's address. It stands last so
/// that every other failure reads as it does on other implementations.
/// Cost: one pass over carrier and outputs, and about 35 us for the signature. Pure. Thread: any.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/receipts/carrier.hpp"

namespace tenzro::receipts {

struct Receipt {
  ProviderAddress provider{};
  Hash32 input_hash{};
  Hash32 commitment{};
  crypto::Signature signature{};
  EndpointId public_key{};
  friend bool operator==(const Receipt&, const Receipt&) = default;
};

/// What was asked for: one batch of one expert. Views; the owner outlives the call.
struct Execution {
  std::string_view model;
  LayerIndex layer = 0;
  ExpertIndex expert = 0;
  std::span<const std::uint32_t> token_indices;
  CarrierKind carrier_kind = CarrierKind::dense;
  std::span<const std::byte> carrier;
  std::uint32_t d_model = 0;
};

[[nodiscard]] std::vector<std::uint8_t> signing_payload(const Execution& execution,
                                                        const Hash32& input_hash,
                                                        const Hash32& commitment);

/// The holder's side. Requires outputs.size() == token_indices.size() * d_model.
[[nodiscard]] Receipt make_receipt(const crypto::KeyPair& key, const Execution& execution,
                                   std::span<const float> outputs);

/// What came back for an Execution.
struct Reply {
  std::span<const std::uint32_t> token_indices;
  std::span<const float> outputs;
  std::optional<Receipt> receipt;
};

/// The router's side. `planned` is the holder that was asked. Error: runtime, at "expert l/e
/// receipt".
[[nodiscard]] Status verify_receipt(const Execution& execution, const ProviderAddress& planned,
                                    const Reply& reply);

}  // namespace tenzro::receipts
