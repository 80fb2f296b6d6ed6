#pragma once
/// \file
/// The C interface between the CPU backend and its kernels.
///
/// Rules
///  - A kernel is one `extern "C"` function a file, named tz_<dtype>_<op>_<tile>__<isa>, compiled
///    with the flags of its ISA alone. It sees raw pointers and sizes; it does not allocate, throw,
///    or use the standard library's templates. Why: code of a wide ISA that escapes through a weak
///    symbol ends as SIGILL in a caller that never asked for it. A test reads the objects with nm
///    and allows no weak symbol, so helpers have internal linkage.
///  - The caller (kernels/cpu/backend) asserts preconditions; the kernel handles tails.
///  - Kernels of one op and dtype give the same bits, by the rules of tenzro/compute/backend.hpp;
///    those of kernels/cpu/fast are free of them.
///
/// Resident layout, the same for every ISA. Outputs are cut into panels of 16, so that an output is
/// a vector lane and its accumulation over K stays sequential. Lanes beyond the last output are
/// zero bytes. A panel begins on 64 bytes. Scales stand before the quants they belong to, so that
/// a panel is one stream: one row reads 29 GB/s so and 22 with the scales behind the panel's quants
/// (the memory gives 30; Zen 4, one core). With g = k/4:
///
///   f32    [k][16] f32
///   f16    [k][16] f16
///   bf16   [ceil(k/2)][16][2] bf16: pairs along K, an odd last k with a zero beside it
///   q8_0   [k/64]{scales [2][16] f16; [2][8 g][16][4] u8, q + 128}; an odd last block has room for
///          two blocks' scales and quants of its own alone
///   q4_k   [k/256]{d[16] f16, dmin[16] f16; [8]{sc[16] u8, m[16] u8};
///          [8][4 v][16][4] u8, low nibble g = 2v, high nibble g = 2v + 1}
///   q6_k   [k/256]{d[16] f16, 32 bytes of zero; [8]{s0[16] i8, s1[16] i8};
///          [8][2 h]{[2 v][16][4] low four bits as q4_k; [16][4] top two bits, those of
///          g = 4h + j at bit 2j}, value + 32}
#include <cstddef>
#include <cstdint>

extern "C" {

/// 32 activations as Q8_0, with the sums that the integer kernels need to undo their offsets.
/// A block with a non-finite value has q = 0 and a NaN scale, which reaches every output of the
/// row.
struct TzQ8Block {
  std::int8_t q[32];
  float scale;  ///< amax/127 rounded to f16 and widened, or itself where that overflows
  float sum;    ///< sum of q
  std::int32_t minus_128_sum;   ///< -128 * sum: undoes the offset of q8_0
  std::int32_t minus_32_first;  ///< -32 * sum of the first 16 q: undoes the offset of q6_k
  std::int32_t minus_32_second;
};

/// out[r][n] = sum over k of x[r][k] * w[n][k] (+ bias[n]), for n < cols.
struct TzMatmul {
  const std::uint8_t* weights;  ///< first panel, 64-byte aligned
  std::size_t panel_bytes;      ///< from one panel to the next
  std::size_t k;                ///< quantised types: a multiple of 32 (q8_0) or 256
  /// One pointer a row: TzQ8Block[k/32] for quantised weights, f32[k] for dense ones.
  const void* const* x;
  std::size_t rows;  ///< 1 .. 8
  float* out;
  std::size_t out_stride;  ///< floats from one row to the next
  std::size_t cols;        ///< at least 1; ceil(cols/16) panels are read
  const float* bias;       ///< null, or readable for whole panels
};

typedef void (*TzMatmulFn)(const TzMatmul* job);

/// 32 activations of 16 rows, for the tile kernels; absent rows are zero bytes.
struct alignas(64) TzQ8Tile {
  std::int8_t q[16][32];
  float scale[16];
  float sum[16];
};

/// As TzMatmul, for any number of rows at once.
struct TzTiles {
  const std::uint8_t* weights;
  std::size_t panel_bytes;
  std::size_t k;
  /// For 16 rows after 16 rows: TzQ8Tile[k/32], or bf16[ceil(k/32)][16][32] with zeros behind k.
  const void* x;
  std::size_t rows;
  float* out;
  std::size_t out_stride;
  std::size_t cols;
  const float* bias;
  void* scratch;  ///< TZ_TILES_SCRATCH bytes for each 32 of k, 64-byte aligned
};

#define TZ_TILES_SCRATCH 2048

typedef void (*TzTilesFn)(const TzTiles* job);

/// Quantises `blocks` * 32 floats.
typedef void (*TzQuantizeFn)(const float* x, std::size_t blocks, TzQ8Block* out);

/// Encodes `blocks` blocks of a weight type from elements of the dtype in the kernel's name, with
/// the bytes of tensor::encode_row. A block with a non-finite element gets a NaN scale.
typedef void (*TzEncodeFn)(const void* x, std::size_t blocks, std::uint8_t* out);

/// Rounds `n` floats to bf16, nearest even (subnormals to zero); an odd n is followed by a zero.
typedef void (*TzNarrowFn)(const float* x, std::size_t n, std::uint16_t* out);

/// Numbered as compute::Activation.
enum class TzActivationKind : std::int32_t {
  silu = 0,
  silu_clamped = 1,
  swiglu_oai = 2,
  gelu_tanh = 3,
  relu2 = 4,
  situ = 5,
};

/// out[i] = activation(gate[i], up[i]); `out` may be `up`. relu2 does not read `gate`.
struct TzActivation {
  TzActivationKind kind;
  float limit;
  float alpha;
  float beta;
  float linear_beta;
  const float* gate;
  const float* up;
  float* out;
  std::size_t n;
};

typedef void (*TzActivationFn)(const TzActivation* job);

}  // extern "C"
