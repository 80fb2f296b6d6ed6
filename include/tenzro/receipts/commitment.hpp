#pragma once
/// \file
/// Activation commitments: a short sketch of an expert's output rows, and its hash.
///
/// A row's sketch holds its k largest values by magnitude with their indices: the same for an
/// honest re-execution up to rounding, and expensive to guess without the work.
/// Rules
///  - k is 8 unless asked otherwise, and clamped to 1..32. A row narrower than k gives all it has.
///  - Order: magnitude descending, ties to the lower index. Magnitudes are ordered as bit patterns,
///    a total order in which infinity follows every number and NaN follows infinity.
///  - The signed value is kept, as f32 bits.
///  - Canonical bytes: "tenzro/moe/activation", u8 k, u32 rows, and per row u32 token_index, u8
///    features, per feature u32 index, f32 value. Integers little-endian. The commitment is their
///    SHA-256. Vectors: proto/vectors/receipts_v1.json.
/// Cost: one pass over the outputs. Pure. Thread: any.
#include <cstdint>
#include <span>
#include <vector>

#include "tenzro/base/ids.hpp"

namespace tenzro::receipts {

inline constexpr std::uint32_t kSketchFeatures = 8;
inline constexpr std::uint32_t kSketchFeaturesMax = 32;

struct Feature {
  std::uint32_t index = 0;
  float value = 0;
};

struct RowSketch {
  std::uint32_t token_index = 0;
  std::vector<Feature> features;
};

struct Sketch {
  std::uint8_t k = kSketchFeatures;
  std::vector<RowSketch> rows;
};

/// One row of `d_model` outputs per token, in the order of `token_indices`.
/// Requires outputs.size() == token_indices.size() * d_model.
[[nodiscard]] Sketch make_sketch(std::span<const std::uint32_t> token_indices,
                                 std::span<const float> outputs, std::uint32_t d_model,
                                 std::uint32_t k = kSketchFeatures);

[[nodiscard]] std::vector<std::uint8_t> canonical_bytes(const Sketch& sketch);
[[nodiscard]] Hash32 commitment_of(const Sketch& sketch);

/// canonical_bytes(make_sketch(...)) with k = 8, without keeping a sketch. `names` calls the rows:
/// row i is `names[rows[i]]`. Requires outputs.size() == rows.size() * d_model.
[[nodiscard]] std::vector<std::uint8_t> canonical_bytes_of_rows(
    std::span<const std::uint32_t> names, std::span<const std::uint32_t> rows,
    std::span<const float> outputs, std::uint32_t d_model);

}  // namespace tenzro::receipts
