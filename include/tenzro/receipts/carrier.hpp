#pragma once
/// \file
/// Carriers: the activation rows of a request as bytes on the wire, dense or as Q8_0 blocks.
///
/// Rules
///  - Dense: f32 little-endian, row after row. Q8_0: 34-byte blocks of 32 values, row after row, so
///    the row width must divide by 32.
///  - Encoding is the reference quantiser's, so the bytes are the same on every node.
///  - Decoding refuses any length but exactly the one the rows need, a scale that is not finite and
///    the value -128 (which the reference never makes). Why: the bytes are a peer's.
///  - `can_be_q8`: a block's scale is amax / 127 as f16, which ends at 65504; beyond `kQ8AmaxMax`
///    it would become infinite.
/// Pure. Thread: any.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"

namespace tenzro::receipts {

/// The number is the byte that the carrier hash holds.
enum class CarrierKind : std::uint8_t { dense = 0, q8_0 = 1 };

inline constexpr float kQ8AmaxMax = 8.3e6F;

/// `input_hash` of a receipt: SHA-256 of "tenzro/moe/carrier", the kind, the raw bytes.
[[nodiscard]] Hash32 carrier_hash(CarrierKind kind, std::span<const std::byte> bytes);

/// Bytes of `rows` rows as Q8_0, or nothing where the width does not divide by 32, is 0, or the
/// size does not fit 64 bits.
[[nodiscard]] std::optional<std::uint64_t> q8_carrier_bytes(std::uint64_t rows,
                                                            std::uint32_t d_model);
/// Whether these rows may travel as Q8_0: at least one, a width that divides by 32, every value
/// finite and at most `kQ8AmaxMax`.
[[nodiscard]] bool can_be_q8(std::span<const float> rows, std::uint32_t d_model);

/// Requires can_be_q8(rows, d_model) and out.size() == q8_carrier_bytes(rows.size() / d_model).
void encode_q8_rows(std::span<const float> rows, std::uint32_t d_model, std::span<std::byte> out);
/// Error: invalid_params at `hidden_q8`, naming the row. Requires out.size() == rows * d_model,
/// which is checked only where the bytes have the right length.
[[nodiscard]] Status decode_q8_rows(std::span<const std::byte> bytes, std::uint64_t rows,
                                    std::uint32_t d_model, std::span<float> out);

}  // namespace tenzro::receipts
