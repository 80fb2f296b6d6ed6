#include "tenzro/receipts/commitment.hpp"

#include <algorithm>
#include <bit>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"

namespace tenzro::receipts {
namespace {

/// Magnitude as an integer that orders as the magnitudes do, NaN last.
std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
}

/// The k largest of a row. The list stays sorted; most values fail the first comparison, with its
/// smallest.
std::vector<Feature> largest(std::span<const float> row, std::size_t k) {
  std::vector<Feature> best;
  best.reserve(k + 1);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::uint32_t size = magnitude(row[i]);
    if (best.size() == k && size <= magnitude(best.back().value)) continue;
    // After all that are at least as large: an equal one before has the lower index.
    const auto place = std::find_if(best.begin(), best.end(), [size](const Feature& other) {
      return magnitude(other.value) < size;
    });
    best.insert(place, Feature{.index = static_cast<std::uint32_t>(i), .value = row[i]});
    if (best.size() > k) best.pop_back();
  }
  return best;
}

}  // namespace

Sketch make_sketch(std::span<const std::uint32_t> token_indices, std::span<const float> outputs,
                   std::uint32_t d_model, std::uint32_t k) {
  TENZRO_ASSERT(outputs.size() == token_indices.size() * d_model);
  Sketch sketch;
  sketch.k = static_cast<std::uint8_t>(std::clamp<std::uint32_t>(k, 1, kSketchFeaturesMax));
  sketch.rows.reserve(token_indices.size());
  for (std::size_t i = 0; i < token_indices.size(); ++i) {
    sketch.rows.push_back({.token_index = token_indices[i],
                           .features = largest(outputs.subspan(i * d_model, d_model), sketch.k)});
  }
  return sketch;
}

std::vector<std::uint8_t> canonical_bytes(const Sketch& sketch) {
  TENZRO_ASSERT(sketch.rows.size() <= UINT32_MAX);
  std::vector<std::uint8_t> bytes;
  append_text(bytes, "tenzro/moe/activation");
  bytes.push_back(sketch.k);
  append_u32_le(bytes, static_cast<std::uint32_t>(sketch.rows.size()));
  for (const RowSketch& row : sketch.rows) {
    TENZRO_ASSERT(row.features.size() <= kSketchFeaturesMax);
    append_u32_le(bytes, row.token_index);
    bytes.push_back(static_cast<std::uint8_t>(row.features.size()));
    for (const Feature& feature : row.features) {
      append_u32_le(bytes, feature.index);
      append_u32_le(bytes, std::bit_cast<std::uint32_t>(feature.value));
    }
  }
  return bytes;
}

Hash32 commitment_of(const Sketch& sketch) {
  return crypto::sha256(canonical_bytes(sketch));
}

}  // namespace tenzro::receipts
