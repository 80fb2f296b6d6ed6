#pragma once
/// \file
/// What a backend is given to upload: views of encoded matrices and the parameters of the expert
/// FFN.
///
/// A view owns nothing: the bytes must outlive the call that receives it, and no longer. Where the
/// weights are not in memory, the view says in which source they lie, and that one is shared.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/tensor/block.hpp"

namespace tenzro::compute {

/// Row-major [rows, cols] as stored in a blob: `rows` encoded rows of `cols` elements each.
/// Convention: y = x · Wᵀ, so rows are outputs and cols are inputs.
struct MatrixView {
  tensor::WeightType type = tensor::WeightType::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::span<const std::byte> bytes;

  [[nodiscard]] std::span<const std::byte> row(std::uint32_t index) const {
    const std::size_t stride = tensor::row_bytes(type, cols);
    return bytes.subspan(index * stride, stride);
  }
};

/// The activation between the two halves of an expert FFN; g = x·Wgᵀ (+ bias), u = x·Wuᵀ (+ bias).
enum class Activation : std::uint8_t {
  silu,          ///< g·σ(g) · u
  silu_clamped,  ///< g' = min(g, limit), u' = clamp(u, ±limit); g'·σ(g') · u'         (DeepSeek V4)
  swigluoai,  ///< g' = min(g, limit), u' = clamp(u, ±limit); (u' + 1)·g'·σ(alpha·g') (gpt-oss,
              ///< MiniMax M3)
  gelu_tanh,  ///< ½g(1 + tanh(√(2/π)(g + 0.044715 g³))) · u                         (Gemma 4)
  relu2,      ///< max(u, 0)²; there is no gate projection                            (Nemotron)
  situ,       ///< beta·tanh(g/beta)·σ(g) · linear_beta·tanh(u/linear_beta)           (Kimi K3)
};

struct FfnSpec {
  Activation activation = Activation::silu;
  float limit = 7.0F;         ///< silu_clamped (required there), swigluoai
  float alpha = 1.702F;       ///< swigluoai
  float beta = 4.0F;          ///< situ
  float linear_beta = 25.0F;  ///< situ
};

/// Bytes that stay where they are, and are read when they are wanted. Never written. Thread: any.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  [[nodiscard]] virtual std::uint64_t size_bytes() const = 0;
  /// Fills `to` from `offset` on. Error: io, also where that is not inside the source; busy.
  [[nodiscard]] virtual Status read(std::uint64_t offset, std::span<std::byte> to) const = 0;
  /// The same bytes where they are, or else read into `scratch`, which then has their size. They
  /// stay as long as both do. Of a matrix, only whole rows may be asked for. Error: as read's.
  [[nodiscard]] virtual Result<std::span<const std::byte>> view(
      std::uint64_t offset, std::size_t size, std::vector<std::byte>& scratch) const;
};

/// Where the matrices of an expert begin in a source.
struct WeightStream {
  std::shared_ptr<const WeightSource> source;
  std::uint64_t gate_begin = 0;
  std::uint64_t up_begin = 0;
  std::uint64_t down_begin = 0;
  /// Most that the upload may hold, while it is made and after.
  std::uint64_t memory_bytes_max = 0;
};

/// One expert: gate, up [d_ff, d_model], down [d_model, d_ff]; biases f32, empty where absent.
struct ExpertView {
  FfnSpec spec;
  std::optional<MatrixView> gate;  ///< absent exactly for relu2
  MatrixView up;
  MatrixView down;
  std::span<const float> gate_bias;
  std::span<const float> up_bias;
  std::span<const float> down_bias;
  /// Where present the matrices have no bytes: they are in its source.
  std::optional<WeightStream> stream = std::nullopt;

  [[nodiscard]] std::uint32_t d_model() const { return down.rows; }

  [[nodiscard]] std::uint32_t d_ff() const { return down.cols; }
};

}  // namespace tenzro::compute
