#pragma once
/// \file
/// Expert blobs: one expert FFN as a safetensors file.
///
/// Tensors `gate_proj.weight`, `up_proj.weight` [d_ff, d_model], `down_proj.weight` [d_model, d_ff]
/// (F32, F16 or BF16), or, quantised: dtype U8, one dimension of block bytes, with metadata
/// `<name>.quant` = q8_0 | q4_k | q6_k (q4_k_m and q4_k_s read as q4_k) and `<name>.shape` =
/// "rows,cols". Optional `gate_proj.bias`, `up_proj.bias`, `down_proj.bias` (float dtypes). Extra
/// tensors are ignored. Metadata `tenzro.ffn` is a JSON object in a string: {activation, limit,
/// alpha, beta, linear_beta}; absent means SwiGLU. With relu2 there is no gate_proj, and a blob
/// that carries one is refused. Unknown keys and values are refused by name. Refused, naming tensor
/// and row: non-finite weights or scales, Q8_0 values of -128. Error texts keep the literals
/// clients match on: "tensor 'X' missing from blob", "tensor 'X' has shape …, expected …", "tensor
/// 'X' has unsupported dtype … (want F32, F16, or BF16)", "quantized tensor 'X' is malformed: …",
/// "safetensors parse error: …". Code: runtime.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/compute/weights.hpp"

namespace tenzro::wire {

/// A parsed expert blob: `view` points into the blob's bytes (and into `biases`).
struct ExpertBlob {
  compute::ExpertView view;
  /// Storage of the widened biases that `view` points to: gate, up, down.
  std::vector<float> biases[3];
  ExpertBlob() = default;
  ExpertBlob(ExpertBlob&&) = default;
  ExpertBlob& operator=(ExpertBlob&&) = default;
  ExpertBlob(const ExpertBlob&) = delete;
  ExpertBlob& operator=(const ExpertBlob&) = delete;
  ~ExpertBlob() = default;
};

/// Checks everything, including every weight's finiteness: O(bytes).
[[nodiscard]] Result<ExpertBlob> parse_expert_blob(std::span<const std::byte> blob);

/// Whether the values of a blob have been checked before; `as_viewed`: whoever views the matrices
/// in the stream's source, whole rows at a time, has them checked with it.
enum class Values : std::uint8_t { unknown, known, as_viewed };

/// Of an expert that is read by slices: its metadata describe a handful of tensors.
inline constexpr std::uint64_t kStreamedHeaderBytesMax = std::uint64_t{1} << 20U;

/// The same of a blob that is not in memory: `view` has a stream, which may have
/// `memory_bytes_max`, and matrices without bytes. Beside the header no more than that is taken:
/// the biases, and a mebibyte or a row at a time; where the values are known the header and the
/// biases are all that is read. Error: also the source's; a header above `header_bytes_max`;
/// no_space where a row and the biases are more, before any of them is read.
[[nodiscard]] Result<ExpertBlob> open_expert_blob(
    std::shared_ptr<const compute::WeightSource> source, Values values,
    std::uint64_t memory_bytes_max, std::uint64_t header_bytes_max = kStreamedHeaderBytesMax);

/// Coarsest quantisation present in the order q4_k < q6_k < q8_0; nothing when all are dense.
[[nodiscard]] std::optional<tensor::WeightType> coarsest_quant(const compute::ExpertView& view);

/// The same blob format, written. Deterministic bytes.
[[nodiscard]] std::vector<std::byte> make_expert_blob(const compute::ExpertView& view);

}  // namespace tenzro::wire
