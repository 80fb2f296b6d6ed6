#pragma once
/// \file
/// Messages of tenzro/exec/1: experts of one layer, run on one holder. Layout: proto/exec.proto.
///
/// Rules
///  - A message is a u32 length, a protobuf header, zeros up to a multiple of 64, raw rows: rows of
///    a received message are slices of it, and rows of a sent one are parts beside the header.
///  - Decoding is strict: every count is capped and every length checked exactly before anything is
///    allocated; tokens, experts and row indices ascend without repeats and are in range.
///  - Values of rows are not looked at here, nor are signatures.
///  - A request whose reply would not fit one message is refused.
/// Errors: invalid_params, a sentence that may go to the peer. Pure. Thread: any.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/compute/backend.hpp"

namespace tenzro::wire {

inline constexpr std::uint32_t kExecVersion = 1;
/// The feature bits this node understands.
inline constexpr std::uint64_t kExecFeatures = 0;
inline constexpr std::size_t kExecHeaderBytesMax = 2ULL << 20U;
inline constexpr std::size_t kExecExpertsMax = 4096;
inline constexpr std::size_t kExecTokensMax = 65'536;
inline constexpr std::uint32_t kExecWidthMax = 131'072;
inline constexpr std::uint32_t kExecBudgetMsMax = 600'000;
inline constexpr std::size_t kExecTextBytesMax = 1024;
/// Rows stand at multiples of this.
inline constexpr std::size_t kExecAlignment = 64;
/// Type of a projection that an expert does not have.
inline constexpr std::uint8_t kAbsentType = 255;

using ExecNonce = std::array<std::uint8_t, 16>;

struct ExecBatch {
  ExpertIndex expert = 0;
  std::vector<std::uint32_t> rows;  ///< indices into `tokens`
  /// The blob the caller expects the holder to run; absent: any.
  std::optional<BlobHash> blob;
};

struct ExecRequest {
  LayerKey layer;
  compute::Profile profile = compute::Profile::exact;
  bool is_q8 = false;
  std::uint32_t width = 0;
  ExecNonce nonce{};
  std::uint32_t budget_ms = 0;
  std::vector<std::uint32_t> tokens;
  std::vector<ExecBatch> batches;
  BufferRef rows;  ///< the carrier: each token once
};

enum class ExecStatus : std::uint8_t { served = 0, busy = 1, failed = 2 };
enum class ExecFailure : std::uint8_t {
  bad_request = 1,
  not_possible = 2,
  execution = 3,
  not_allowed = 4
};

/// What a holder says of one expert's outputs; receipts/receipt_set.hpp says what is signed.
struct ExecReceipt {
  ExpertIndex expert = 0;
  std::uint32_t rows = 0;
  Hash32 input_hash{};
  Hash32 commitment{};
  Hash32 rows_hash{};
  BlobHash blob{};
  std::uint8_t gate_type = kAbsentType;
  std::uint8_t up_type = 0;
  std::uint8_t down_type = 0;
  friend bool operator==(const ExecReceipt&, const ExecReceipt&) = default;
};

struct ExecReply {
  ExecStatus status = ExecStatus::served;
  std::uint32_t retry_after_ms = 0;
  ExecFailure failure = ExecFailure::bad_request;  ///< where failed
  std::string text;                                ///< where busy or failed
  compute::Profile profile = compute::Profile::exact;
  std::vector<ExecReceipt> receipts;
  EndpointId key{};
  std::array<std::uint8_t, 64> signature{};
  std::vector<BufferRef> rows;  ///< f32, one buffer a receipt
};

/// Bytes that `rows` rows of a request take: nothing where the width cannot be Q8_0.
[[nodiscard]] std::optional<std::uint64_t> exec_carrier_bytes(std::uint64_t rows,
                                                              std::uint32_t width, bool is_q8);

/// Header and rows; the rows are not copied. Error: what decoding would refuse.
[[nodiscard]] Result<std::vector<BufferRef>> encode_exec_request(const ExecRequest& request);
[[nodiscard]] Result<ExecRequest> decode_exec_request(const BufferRef& message);

/// Header, then the rows of each expert, not copied. Texts are cut to kExecTextBytesMax.
[[nodiscard]] std::vector<BufferRef> encode_exec_reply(const ExecReply& reply);
/// `width` is that of the request. That the receipts are those asked for is the caller's to check.
/// Errors: runtime (another version of the protocol, which is no lie), invalid_params.
[[nodiscard]] Result<ExecReply> decode_exec_reply(const BufferRef& message, std::uint32_t width);

}  // namespace tenzro::wire
