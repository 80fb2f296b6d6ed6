#include "support/kimi_k25_checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::testing {
namespace {

using tensor::DType;
using Matrix = std::vector<std::vector<double>>;
using Row = std::vector<double>;

constexpr std::uint32_t kHidden = 64;
constexpr std::uint32_t kFfn = 32;
constexpr std::uint32_t kExperts = 8;
constexpr std::uint32_t kTopK = 3;
constexpr std::uint32_t kGroup = 32;
constexpr double kScale = 2.827;
const std::string kPrefix = "language_model.model.layers.1.mlp.";

struct Ffn {
  Matrix gate, up, down;
};

struct FileTensor {
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;
};

/// The layer and its numbers.
struct KimiLayer {
  std::map<std::string, FileTensor> tensors;
  std::vector<Ffn> experts;
  Ffn shared;
  Matrix router;
  Row bias;
};

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto raw = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

std::uint16_t bf16_of(double value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16U);
}

/// 32 columns from `first`: a scale for all of them, and eight values of -8 to 7 a word, the first
/// in its lowest bits.
void add_group(Row& row, std::size_t first, Prng& prng, FileTensor& packed, FileTensor& scales) {
  const double scale = static_cast<double>(1 + prng.below(100)) / 1024.0;  // exact in bf16
  append(scales.bytes, bf16_of(scale));
  for (std::size_t word = 0; word < kGroup / 8; ++word) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const auto nibble = static_cast<std::uint32_t>(prng.below(16));
      row[first + 8 * word + i] = scale * (static_cast<double>(nibble) - 8.0);
      bits |= nibble << (4 * i);
    }
    append(packed.bytes, bits);
  }
}

Matrix add_int4(KimiLayer& layer, const std::string& stem, std::uint32_t rows, std::uint32_t cols,
                Prng& prng) {
  Matrix matrix(rows, Row(cols));
  FileTensor packed{DType::i32, {rows, cols / 8}, {}};
  FileTensor scales{DType::bf16, {rows, cols / kGroup}, {}};
  for (Row& row : matrix) {
    for (std::size_t first = 0; first < cols; first += kGroup)
      add_group(row, first, prng, packed, scales);
  }
  layer.tensors[stem + ".weight_packed"] = std::move(packed);
  layer.tensors[stem + ".weight_scale"] = std::move(scales);
  FileTensor shape{DType::i32, {2}, {}};
  append(shape.bytes, rows);
  append(shape.bytes, cols);
  layer.tensors[stem + ".weight_shape"] = std::move(shape);
  return matrix;
}

Matrix add_bf16(KimiLayer& layer, const std::string& name, std::uint32_t rows, std::uint32_t cols,
                Prng& prng) {
  Matrix matrix(rows, Row(cols));
  FileTensor dense{DType::bf16, {rows, cols}, {}};
  for (Row& row : matrix) {
    for (double& value : row) {
      value = (static_cast<double>(prng.below(201)) - 100.0) / 256.0;  // exact in bf16
      append(dense.bytes, bf16_of(value));
    }
  }
  layer.tensors[name] = std::move(dense);
  return matrix;
}

KimiLayer kimi_layer() {
  Prng prng(25);
  KimiLayer layer;
  layer.router = add_bf16(layer, kPrefix + "gate.weight", kExperts, kHidden, prng);
  FileTensor bias{DType::f32, {kExperts}, {}};
  for (std::uint32_t e = 0; e < kExperts; ++e) {
    layer.bias.push_back(static_cast<double>(prng.below(64)) / 64.0 - 0.5);
    append(bias.bytes, static_cast<float>(layer.bias.back()));
  }
  layer.tensors[kPrefix + "gate.e_score_correction_bias"] = std::move(bias);
  for (std::uint32_t e = 0; e < kExperts; ++e) {
    const std::string stem = kPrefix + "experts." + std::to_string(e) + ".";
    layer.experts.push_back({add_int4(layer, stem + "gate_proj", kFfn, kHidden, prng),
                             add_int4(layer, stem + "up_proj", kFfn, kHidden, prng),
                             add_int4(layer, stem + "down_proj", kHidden, kFfn, prng)});
  }
  const std::string shared = kPrefix + "shared_experts.";
  layer.shared = {add_bf16(layer, shared + "gate_proj.weight", kFfn, kHidden, prng),
                  add_bf16(layer, shared + "up_proj.weight", kFfn, kHidden, prng),
                  add_bf16(layer, shared + "down_proj.weight", kHidden, kFfn, prng)};
  return layer;
}

Row times(const Matrix& matrix, const Row& x) {
  Row y;
  for (const Row& row : matrix)
    y.push_back(std::inner_product(row.begin(), row.end(), x.begin(), 0.0));
  return y;
}

Row swiglu(const Ffn& ffn, const Row& x) {
  const Row gate = times(ffn.gate, x);
  Row inner = times(ffn.up, x);
  for (std::size_t i = 0; i < inner.size(); ++i) inner[i] *= gate[i] / (1.0 + std::exp(-gate[i]));
  return times(ffn.down, inner);
}

/// Sigmoid scores; the three best of score + bias; their scores over their sum, times the scale.
Row formula(const KimiLayer& layer, const Row& x) {
  Row scores = times(layer.router, x);
  for (double& score : scores) score = 1.0 / (1.0 + std::exp(-score));
  std::vector<std::uint32_t> order(kExperts);
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] + layer.bias[a] > scores[b] + layer.bias[b];
  });
  double sum = 0;
  for (std::uint32_t i = 0; i < kTopK; ++i) sum += scores[order[i]];
  Row y = swiglu(layer.shared, x);
  for (std::uint32_t i = 0; i < kTopK; ++i) {
    const Row one = swiglu(layer.experts[order[i]], x);
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += scores[order[i]] / sum * kScale * one[j];
  }
  return y;
}

std::vector<std::byte> written(const KimiLayer& layer) {
  std::vector<tensor::TensorToWrite> list;
  for (const auto& [name, one] : layer.tensors)
    list.push_back({name, one.dtype, one.shape, one.bytes});
  return tensor::write_safetensors(list, {});
}

}  // namespace

KimiK25Checkpoint make_kimi_k25_checkpoint() {
  const KimiLayer layer = kimi_layer();
  KimiK25Checkpoint made{.file = written(layer), .width = kHidden};
  Prng prng(7);
  for (int token = 0; token < 6; ++token) {
    Row x;
    for (std::uint32_t i = 0; i < kHidden; ++i) {
      made.rows.push_back((static_cast<float>(prng.below(2001)) - 1000.0F) / 1000.0F);
      x.push_back(static_cast<double>(made.rows.back()));
    }
    for (const double y : formula(layer, x)) made.output.push_back(static_cast<float>(y));
  }
  return made;
}

}  // namespace tenzro::testing
