#include <algorithm>
#include <array>
#include <cstring>

#include "tenzro/base/assert.hpp"
#include "tenzro/tensor/block.hpp"
#include "tenzro/tensor/dtype.hpp"

#include "f16_field.hpp"
#include "finite.hpp"
#include "q4_k.hpp"
#include "q6_k.hpp"
#include "q8_0.hpp"

namespace tenzro::tensor {
namespace {

/// Elements decoded at a time where a row is only looked at. A multiple of every block.
constexpr std::size_t kChunkElements = 256;

template <std::size_t Elements, std::size_t Bytes>
void encode_blocks(std::span<const float> x, std::span<std::byte> out,
                   void (*encode)(std::span<const float, Elements>, std::span<std::byte, Bytes>)) {
  for (std::size_t block = 0; block < x.size() / Elements; ++block) {
    encode(x.subspan(block * Elements).template first<Elements>(),
           out.subspan(block * Bytes).template first<Bytes>());
  }
}

template <std::size_t Elements, std::size_t Bytes>
void decode_blocks(std::span<const std::byte> row, std::span<float> out,
                   void (*decode)(std::span<const std::byte, Bytes>, std::span<float, Elements>)) {
  for (std::size_t block = 0; block < out.size() / Elements; ++block) {
    decode(row.subspan(block * Bytes).template first<Bytes>(),
           out.subspan(block * Elements).template first<Elements>());
  }
}

void encode_halves(std::span<const float> x, std::span<std::byte> out,
                   std::uint16_t (*convert)(float)) {
  for (std::size_t i = 0; i < x.size(); ++i) store_f16_bits(convert(x[i]), &out[2 * i]);
}

bool has_q8_minus_128(std::span<const std::byte> row) {
  for (std::size_t block = 0; block < row.size(); block += kQ80Bytes) {
    const auto values = row.subspan(block, kQ80Bytes).subspan(2);
    if (std::find(values.begin(), values.end(), std::byte{0x80}) != values.end()) return true;
  }
  return false;
}

/// True where a scale field at `field` of any block is infinite or NaN.
bool has_bad_scale(std::span<const std::byte> row, std::size_t bytes, std::size_t field) {
  constexpr std::uint16_t kExponent = 0x7C00;
  for (std::size_t block = 0; block < row.size(); block += bytes) {
    if ((load_f16_bits(&row[block + field]) & kExponent) == kExponent) return true;
  }
  return false;
}

bool is_dense_finite(WeightType type, std::span<const std::byte> row) {
  std::array<float, kChunkElements> chunk{};
  const std::size_t chunk_bytes = row_bytes(type, chunk.size());
  for (std::size_t at = 0; at < row.size(); at += chunk_bytes) {
    const auto part = row.subspan(at, std::min(chunk_bytes, row.size() - at));
    const auto values = std::span(chunk).first(part.size() / block_bytes(type));
    decode_row(type, part, values);
    if (!all_finite(values)) return false;
  }
  return true;
}

}  // namespace

void encode_row(WeightType type, std::span<const float> x, std::span<std::byte> out) {
  TENZRO_ASSERT(out.size() == row_bytes(type, x.size()));
  switch (type) {
    case WeightType::f32:
      if (!x.empty()) std::memcpy(out.data(), x.data(), out.size());
      return;
    case WeightType::f16:
      encode_halves(x, out, f32_to_f16);
      return;
    case WeightType::bf16:
      encode_halves(x, out, f32_to_bf16);
      return;
    case WeightType::q8_0:
      encode_blocks(x, out, encode_q8_0);
      return;
    case WeightType::q4_k:
      encode_blocks(x, out, encode_q4_k);
      return;
    case WeightType::q6_k:
      encode_blocks(x, out, encode_q6_k);
      return;
  }
}

void encode_row_weighted(WeightType type, std::span<const float> x,
                         std::span<const float> importance, std::span<std::byte> out) {
  TENZRO_ASSERT(importance.size() == x.size());
  TENZRO_ASSERT(out.size() == row_bytes(type, x.size()));
  if (type != WeightType::q4_k && type != WeightType::q6_k) return encode_row(type, x, out);
  const std::size_t bytes = block_bytes(type);
  for (std::size_t block = 0; block < x.size() / kQ4KElements; ++block) {
    const auto values = x.subspan(block * kQ4KElements).first<kQ4KElements>();
    const auto weights = importance.subspan(block * kQ4KElements).first<kQ4KElements>();
    const auto to = out.subspan(block * bytes, bytes);
    if (type == WeightType::q4_k) {
      encode_q4_k_weighted(values, weights, to.first<kQ4KBytes>());
    } else {
      encode_q6_k_weighted(values, weights, to.first<kQ6KBytes>());
    }
  }
}

void decode_row(WeightType type, std::span<const std::byte> row, std::span<float> out) {
  TENZRO_ASSERT(row.size() == row_bytes(type, out.size()));
  switch (type) {
    case WeightType::f32:
      convert_to_f32(DType::f32, row, out);
      return;
    case WeightType::f16:
      convert_to_f32(DType::f16, row, out);
      return;
    case WeightType::bf16:
      convert_to_f32(DType::bf16, row, out);
      return;
    case WeightType::q8_0:
      decode_blocks(row, out, decode_q8_0);
      return;
    case WeightType::q4_k:
      decode_blocks(row, out, decode_q4_k);
      return;
    case WeightType::q6_k:
      decode_blocks(row, out, decode_q6_k);
      return;
  }
}

double dot_reference(WeightType type, std::span<const std::byte> row, std::span<const float> x) {
  TENZRO_ASSERT(row.size() == row_bytes(type, x.size()));
  std::array<float, kChunkElements> chunk{};
  double sum = 0.0;
  for (std::size_t at = 0; at < x.size(); at += chunk.size()) {
    const auto activations = x.subspan(at, std::min(chunk.size(), x.size() - at));
    const auto weights = std::span(chunk).first(activations.size());
    decode_row(type, row.subspan(row_bytes(type, at), row_bytes(type, weights.size())), weights);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum += static_cast<double>(weights[i]) * static_cast<double>(activations[i]);
    }
  }
  return sum;
}

bool is_finite_row(WeightType type, std::span<const std::byte> row) {
  TENZRO_ASSERT(row.size() % block_bytes(type) == 0);
  switch (type) {
    case WeightType::f32:
    case WeightType::f16:
    case WeightType::bf16:
      return is_dense_finite(type, row);
    case WeightType::q8_0:
      return !has_bad_scale(row, kQ80Bytes, kQ80ScaleField);
    case WeightType::q4_k:
      return !has_bad_scale(row, kQ4KBytes, kQ4KScaleField) &&
             !has_bad_scale(row, kQ4KBytes, kQ4KMinimumField);
    case WeightType::q6_k:
      return !has_bad_scale(row, kQ6KBytes, kQ6KScaleField);
  }
  return false;
}

std::optional<RowDefect> find_defect(WeightType type, std::span<const std::byte> row) {
  if (!is_finite_row(type, row)) return RowDefect::non_finite;
  if (type == WeightType::q8_0 && has_q8_minus_128(row)) return RowDefect::q8_minus_128;
  return std::nullopt;
}

}  // namespace tenzro::tensor
