#include <algorithm>
#include <cstring>

#include "kernels/cpu/backend/packed_matrix.hpp"

namespace tenzro::kernels {
namespace {

constexpr std::size_t kLanes = kPanelOutputs;
constexpr std::size_t kScaleLine = 64;
constexpr std::size_t kSuperHead = kScaleLine + 8 * 32;  // of a super-block of the k-quants

/// One output's encoded row and where its lane begins in the panel.
struct Lane {
  const std::uint8_t* row;
  std::size_t index;
  std::size_t cols;
};

template <std::size_t Bytes>
void pack_dense(const Lane& lane, std::uint8_t* out) {
  for (std::size_t k = 0; k < lane.cols; ++k) {
    std::memcpy(out + (k * kLanes + lane.index) * Bytes, lane.row + k * Bytes, Bytes);
  }
}

void pack_bf16(const Lane& lane, std::uint8_t* out) {
  for (std::size_t k = 0; k < lane.cols; ++k) {
    std::memcpy(out + (k / 2 * kLanes + lane.index) * 4 + k % 2 * 2, lane.row + k * 2, 2);
  }
}

void pack_q8_0(const Lane& lane, std::uint8_t* out) {
  constexpr std::size_t kBlockBytes = 34;  // f16 d, i8 q[32]
  for (std::size_t block = 0; block < lane.cols / 32; ++block) {
    const std::uint8_t* from = lane.row + block * kBlockBytes;
    std::uint8_t* pair = out + block / 2 * (kScaleLine + 1024);
    std::memcpy(pair + block % 2 * 32 + lane.index * 2, from, 2);
    std::uint8_t* quants = pair + kScaleLine + block % 2 * 512 + lane.index * 4;
    for (std::size_t group = 0; group < 8; ++group) {
      std::uint32_t four = 0;
      std::memcpy(&four, from + 2 + group * 4, sizeof four);
      four ^= 0x80808080U;  // + 128
      std::memcpy(quants + group * 64, &four, sizeof four);
    }
  }
}

/// Puts the low four bits of values at their nibbles: group g = i/4 is the low (even g) or high
/// half of byte g/2.
void pack_nibbles(std::span<const std::uint8_t> values, std::size_t lane, std::uint8_t* out) {
  for (std::size_t pair = 0; pair < values.size() / 8; ++pair) {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint32_t both =
          (values[pair * 8 + i] & 15U) | ((values[pair * 8 + 4 + i] & 15U) << 4U);
      out[pair * 64 + lane * 4 + i] = static_cast<std::uint8_t>(both);
    }
  }
}

struct ScaleAndMin {
  std::uint8_t scale;
  std::uint8_t minimum;
};

/// The 6-bit scale and minimum of sub-block j, as ggml packs eight pairs into 12 bytes.
ScaleAndMin unpack_q4_k_scale(const std::uint8_t* packed, std::size_t j) {
  if (j < 4)
    return {static_cast<std::uint8_t>(packed[j] & 63U),
            static_cast<std::uint8_t>(packed[j + 4] & 63U)};
  const std::uint32_t scale =
      (packed[j + 4] & 15U) | (static_cast<std::uint32_t>(packed[j - 4] >> 6U) << 4U);
  const std::uint32_t minimum = static_cast<std::uint32_t>(packed[j + 4] >> 4U) |
                                (static_cast<std::uint32_t>(packed[j] >> 6U) << 4U);
  return {static_cast<std::uint8_t>(scale), static_cast<std::uint8_t>(minimum)};
}

/// The 32 values of sub-block j: two sub-blocks share 32 bytes, low and high nibbles.
void unpack_q4_k(const std::uint8_t* pairs, std::size_t j, std::uint8_t* values) {
  for (std::size_t i = 0; i < 32; ++i) {
    const std::uint32_t both = pairs[j / 2 * 32 + i];
    values[i] = static_cast<std::uint8_t>(j % 2 == 0 ? both & 15U : both >> 4U);
  }
}

void pack_q4_k(const Lane& lane, std::uint8_t* out) {
  constexpr std::size_t kBlockBytes = 144;  // f16 d, f16 dmin, 12 scales, 128 nibble pairs
  for (std::size_t super = 0; super < lane.cols / 256; ++super) {
    const std::uint8_t* from = lane.row + super * kBlockBytes;
    std::uint8_t* to = out + super * (kSuperHead + 8 * 256);
    std::memcpy(to + lane.index * 2, from, 2);
    std::memcpy(to + 32 + lane.index * 2, from + 2, 2);
    for (std::size_t j = 0; j < 8; ++j) {
      const ScaleAndMin pair = unpack_q4_k_scale(from + 4, j);
      std::uint8_t* scales = to + kScaleLine + j * 32 + lane.index;
      scales[0] = pair.scale;
      scales[16] = pair.minimum;
      std::uint8_t values[32];
      unpack_q4_k(from + 16, j, values);
      pack_nibbles(values, lane.index, to + kSuperHead + j * 256);
    }
  }
}

/// Six-bit value (offset 32) number `e` of a super-block of 256: ql[128], qh[64], in two halves of
/// 128.
std::uint8_t unpack_q6_k(const std::uint8_t* from, std::size_t e) {
  const std::size_t half = e / 128;
  const std::size_t quarter = e % 128 / 32;
  const std::size_t l = e % 32;
  const std::uint32_t low_pair = from[half * 64 + quarter % 2 * 32 + l];
  const std::uint32_t low = quarter < 2 ? low_pair & 15U : low_pair >> 4U;
  const std::uint32_t high =
      (static_cast<std::uint32_t>(from[128 + half * 32 + l]) >> (quarter * 2)) & 3U;
  return static_cast<std::uint8_t>(low | (high << 4U));
}

/// Bits 4 and 5 of 16 values: group j at bits 2j.
void pack_top_bits(const std::uint8_t* values, std::size_t lane, std::uint8_t* out) {
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(values[i] >> 4U) << (i / 4 * 2);
    std::uint8_t& to = out[lane * 4 + i % 4];
    to = static_cast<std::uint8_t>(to | bits);
  }
}

void pack_q6_k(const Lane& lane, std::uint8_t* out) {
  constexpr std::size_t kBlockBytes = 210;  // ql[128], qh[64], i8 scales[16], f16 d
  for (std::size_t super = 0; super < lane.cols / 256; ++super) {
    const std::uint8_t* from = lane.row + super * kBlockBytes;
    std::uint8_t* to = out + super * (kSuperHead + 8 * 384);
    std::memcpy(to + lane.index * 2, from + 208, 2);
    for (std::size_t j = 0; j < 8; ++j) {
      std::uint8_t* scales = to + kScaleLine + j * 32 + lane.index;
      scales[0] = from[192 + j * 2];
      scales[16] = from[192 + j * 2 + 1];
      std::uint8_t values[32];
      for (std::size_t i = 0; i < 32; ++i) values[i] = unpack_q6_k(from, j * 32 + i);
      std::uint8_t* block = to + kSuperHead + j * 384;
      for (std::size_t half = 0; half < 2; ++half) {
        pack_nibbles({values + half * 16, 16}, lane.index, block + half * 192);
        pack_top_bits(values + half * 16, lane.index, block + half * 192 + 128);
      }
    }
  }
}

void pack_lane(tensor::WeightType type, const Lane& lane, std::uint8_t* out) {
  switch (type) {
    case tensor::WeightType::f32:
      return pack_dense<4>(lane, out);
    case tensor::WeightType::f16:
      return pack_dense<2>(lane, out);
    case tensor::WeightType::bf16:
      return pack_bf16(lane, out);
    case tensor::WeightType::q8_0:
      return pack_q8_0(lane, out);
    case tensor::WeightType::q4_k:
      return pack_q4_k(lane, out);
    case tensor::WeightType::q6_k:
      return pack_q6_k(lane, out);
  }
}

}  // namespace

void pack_panel(const compute::MatrixView& matrix, std::size_t panel, std::uint8_t* out) {
  const std::size_t first = panel * kLanes;
  const std::size_t count = std::min(kLanes, matrix.rows - first);
  for (std::size_t lane = 0; lane < count; ++lane) {
    const auto row = matrix.row(static_cast<std::uint32_t>(first + lane));
    pack_lane(
        matrix.type,
        {static_cast<const std::uint8_t*>(static_cast<const void*>(row.data())), lane, matrix.cols},
        out);
  }
}

}  // namespace tenzro::kernels
