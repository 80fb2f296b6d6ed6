#include "tenzro/receipts/commitment.hpp"

#include <algorithm>
#include <bit>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"

#include "row_passes.hpp"

namespace tenzro::receipts {
namespace {

/// Magnitude as an integer that orders as the magnitudes do, NaN last.
std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
}

/// The k largest values of a row, sorted.
class Largest {
 public:
  void find(std::span<const float> row, std::size_t k) {
    k_ = k;
    count_ = 0;
    floor_ = -1;
    for (std::size_t at = 0; at < row.size(); at += kGroup * kGroupsAtOnce) {
      find_among(row, at, std::min(row.size(), at + kGroup * kGroupsAtOnce));
    }
  }

  [[nodiscard]] std::span<const Feature> features() const { return {best_, count_}; }

 private:
  static constexpr std::size_t kGroup = kMagnitudeGroup;
  static constexpr std::size_t kGroupsAtOnce = 64;

  /// Most groups hold nothing that is kept. The k-th largest of the groups' maxima tells which: as
  /// many values of other groups are at least as large.
  void find_among(std::span<const float> row, std::size_t from, std::size_t to) {
    std::int32_t maxima[kGroupsAtOnce];
    const std::size_t groups = (to - from) / kGroup;
    best_passes().group_maxima(row.data() + from, groups, maxima);
    const std::int32_t bound = kth_largest(std::span(maxima, groups));
    for (std::size_t group = 0; group < groups; ++group) {
      if (maxima[group] < bound || maxima[group] <= floor_) continue;
      take(row, from + group * kGroup, from + (group + 1) * kGroup);
    }
    take(row, from + groups * kGroup, to);
  }

  /// 0 where there are fewer than k.
  [[nodiscard]] std::int32_t kth_largest(std::span<const std::int32_t> sizes) const {
    std::int32_t best[kSketchFeaturesMax] = {};
    for (const std::int32_t size : sizes) {
      if (size <= best[k_ - 1]) continue;
      std::size_t place = k_ - 1;
      for (; place > 0 && best[place - 1] < size; --place) best[place] = best[place - 1];
      best[place] = size;
    }
    return best[k_ - 1];
  }

  static std::int32_t signed_magnitude(float value) {
    return static_cast<std::int32_t>(magnitude(value));
  }

  void take(std::span<const float> row, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      const std::int32_t size = signed_magnitude(row[i]);
      if (size <= floor_) continue;
      // After all that are at least as large: an equal one before has the lower index.
      std::size_t place = count_ < k_ ? count_++ : k_ - 1;
      for (; place > 0 && signed_magnitude(best_[place - 1].value) < size; --place) {
        best_[place] = best_[place - 1];
      }
      best_[place] = {.index = static_cast<std::uint32_t>(i), .value = row[i]};
      if (count_ == k_) floor_ = signed_magnitude(best_[k_ - 1].value);
    }
  }

  Feature best_[kSketchFeaturesMax];
  std::size_t k_ = 0;
  std::size_t count_ = 0;
  /// Magnitude that a value must exceed.
  std::int32_t floor_ = -1;
};

void append_row(std::vector<std::uint8_t>& bytes, std::uint32_t token,
                std::span<const Feature> features) {
  append_u32_le(bytes, token);
  bytes.push_back(static_cast<std::uint8_t>(features.size()));
  for (const Feature& feature : features) {
    append_u32_le(bytes, feature.index);
    append_u32_le(bytes, std::bit_cast<std::uint32_t>(feature.value));
  }
}

void append_head(std::vector<std::uint8_t>& bytes, std::uint32_t k, std::size_t rows) {
  TENZRO_ASSERT(rows <= UINT32_MAX);
  append_text(bytes, "tenzro/moe/activation");
  bytes.push_back(static_cast<std::uint8_t>(k));
  append_u32_le(bytes, static_cast<std::uint32_t>(rows));
}

}  // namespace

Sketch make_sketch(std::span<const std::uint32_t> token_indices, std::span<const float> outputs,
                   std::uint32_t d_model, std::uint32_t k) {
  TENZRO_ASSERT(outputs.size() == token_indices.size() * d_model);
  Sketch sketch;
  sketch.k = static_cast<std::uint8_t>(std::clamp<std::uint32_t>(k, 1, kSketchFeaturesMax));
  sketch.rows.reserve(token_indices.size());
  Largest largest;
  for (std::size_t i = 0; i < token_indices.size(); ++i) {
    largest.find(outputs.subspan(i * d_model, d_model), sketch.k);
    const std::span<const Feature> features = largest.features();
    sketch.rows.push_back({token_indices[i], {features.begin(), features.end()}});
  }
  return sketch;
}

std::vector<std::uint8_t> canonical_bytes(const Sketch& sketch) {
  std::vector<std::uint8_t> bytes;
  append_head(bytes, sketch.k, sketch.rows.size());
  for (const RowSketch& row : sketch.rows) {
    TENZRO_ASSERT(row.features.size() <= kSketchFeaturesMax);
    append_row(bytes, row.token_index, row.features);
  }
  return bytes;
}

Hash32 commitment_of(const Sketch& sketch) {
  return crypto::sha256(canonical_bytes(sketch));
}

std::vector<std::uint8_t> canonical_bytes_of_rows(std::span<const std::uint32_t> names,
                                                  std::span<const std::uint32_t> rows,
                                                  std::span<const float> outputs,
                                                  std::uint32_t d_model) {
  TENZRO_ASSERT(outputs.size() == rows.size() * d_model);
  constexpr std::size_t kHeadBytes = 32;
  constexpr std::size_t kRowBytes = 5 + kSketchFeatures * 8;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(kHeadBytes + rows.size() * kRowBytes);
  append_head(bytes, kSketchFeatures, rows.size());
  Largest largest;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    largest.find(outputs.subspan(i * d_model, d_model), kSketchFeatures);
    append_row(bytes, names[rows[i]], largest.features());
  }
  return bytes;
}

}  // namespace tenzro::receipts
