#pragma once
/// \file
/// Execution receipts, version 2: a holder's one signature over everything it ran for a request.
///
/// Payload of an expert: "tenzro/moe/receipt/2", u32 len(model_id), model_id, u32 layer, u32
/// expert, u32 tokens, u32 token_index..., input_hash[32], commitment[32] (both as in version 1),
/// rows_hash[32], provider[32], router_endpoint_id[32], nonce[16], blob_hash[32] (zeros where the
/// weights came inline), u8 gate_type, u8 up_type, u8 down_type (GGUF type ids; 255 absent), u8
/// profile (0 fast, 1 exact). Signed: "tenzro/moe/receipt-set/2", u32 count, SHA-256(payload) of
/// each expert in the order of the request. Integers little-endian. Vectors:
/// proto/vectors/receipts_v2.json.
///
/// rows_hash = SHA-256("tenzro/moe/rows", u32 rows, u32 d_model, each value as bf16 rounded to the
/// nearest, ties to even, little-endian). Why bf16: re-execution elsewhere may be compared by it
/// without keeping the rows. Bits below bf16 are bound for the values in the commitment alone.
///
/// Rules
///  - Nonce and router are those of the request, so that a receipt cannot be shown again; blob,
///  types
///    and profile say what ran, so that another quantisation is not taken for fraud.
///  - `verify_set` holds a set against what was asked, in this order: the key, the profile, experts
///    and row counts, the blobs named, the hashes of what was sent and received, the signature.
/// Cost: 2048 f32 are about 3 us (q8) to 5 us (dense) of hashing, split over the executor where
/// there is much; one signature a set. Pure. Thread: any.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/receipts/carrier.hpp"
#include "tenzro/wire/exec_message.hpp"

namespace tenzro::receipts {

using ExpertReceipt = wire::ExecReceipt;

/// What was asked for. Views; the owner outlives the call.
struct SetExecution {
  std::string_view model;
  LayerIndex layer = 0;
  CarrierKind carrier_kind = CarrierKind::dense;
  /// Rows as they travelled, each of `tokens` once.
  std::span<const std::byte> carrier;
  std::uint32_t width = 0;
  std::span<const std::uint32_t> tokens;
  compute::Profile profile = compute::Profile::exact;
  wire::ExecNonce nonce{};
  EndpointId router{};
};

/// One expert of it, with what came out.
struct SetBatch {
  ExpertIndex expert = 0;
  std::span<const std::uint32_t> rows;  ///< indices into `tokens`
  std::span<const float> outputs;       ///< [rows, width]
  /// Holder: what runs here. Router: the blob declared, zeros where none is.
  BlobHash blob{};
  std::uint8_t gate_type = wire::kAbsentType;  ///< holder only, as the next two
  std::uint8_t up_type = 0;
  std::uint8_t down_type = 0;
};

struct ReceiptSet {
  compute::Profile profile = compute::Profile::exact;
  std::vector<ExpertReceipt> experts;
  EndpointId key{};
  crypto::Signature signature{};
};

[[nodiscard]] Hash32 hash_rows(std::span<const float> values, std::uint32_t d_model);

[[nodiscard]] std::vector<std::uint8_t> set_payload(const SetExecution& execution,
                                                    std::span<const std::uint32_t> rows,
                                                    const ExpertReceipt& receipt,
                                                    const ProviderAddress& provider);
/// What is signed.
[[nodiscard]] std::vector<std::uint8_t> set_message(std::span<const Hash32> payload_hashes);

/// The holder's side. Requires whole rows everywhere, and row indices in range.
[[nodiscard]] ReceiptSet make_set(const crypto::KeyPair& key, const SetExecution& execution,
                                  std::span<const SetBatch> batches, compute::Executor& executor);

/// The router's side. `holder` is the key that was asked. Error: forbidden, at "expert l/e receipt"
/// or "receipt set". Requires what make_set does.
[[nodiscard]] Status verify_set(const EndpointId& holder, const SetExecution& execution,
                                std::span<const SetBatch> batches, const ReceiptSet& set,
                                compute::Executor& executor);

}  // namespace tenzro::receipts
