#include "kernels/cpu/backend/kernel_table.hpp"

#include "tenzro/base/assert.hpp"

extern "C" {
#define TZ_MATMUL(function, type, isa, rows, outputs) void function(const TzMatmul* job);
#include "kernels/cpu/matmul/matmul.inc"
#undef TZ_MATMUL
#define TZ_FAST(type, dot, narrow, compiled, isa) \
  void dot(const TzMatmul* job);                  \
  void narrow(const float* x, std::size_t n, std::uint16_t* out);
#include "kernels/cpu/fast/fast.inc"
#undef TZ_FAST
#define TZ_TILES(function, type, profile, isa) void function(const TzTiles* job);
#include "kernels/cpu/tiles/tiles.inc"
#undef TZ_TILES
#define TZ_QUANTIZE(function, isa) \
  void function(const float* x, std::size_t blocks, TzQ8Block* out);
#include "kernels/cpu/quantize/quantize.inc"
#undef TZ_QUANTIZE
#define TZ_ACTIVATION(function, isa) void function(const TzActivation* job);
#include "kernels/cpu/activation/activation.inc"
#undef TZ_ACTIVATION
#define TZ_ENCODE(function, source, type, isa) \
  void function(const void* x, std::size_t blocks, std::uint8_t* out);
#include "kernels/cpu/quantize/encode.inc"
#undef TZ_ENCODE
}

namespace tenzro::kernels {
namespace {

constexpr MatmulKernel kMatmul[] = {
#define TZ_MATMUL(function, type, isa, rows, outputs) \
  {#function, tensor::WeightType::type, Isa::isa, rows, outputs, function},
#include "kernels/cpu/matmul/matmul.inc"
#undef TZ_MATMUL
};

constexpr FastKernel kFast[] = {
#define TZ_FAST(type, dot, narrow, compiled, isa) \
  {#dot, tensor::WeightType::type, Isa::isa, dot, narrow},
#include "kernels/cpu/fast/fast.inc"
#undef TZ_FAST
};

constexpr TileKernel kTiles[] = {
#define TZ_TILES(function, type, profile, isa) \
  {#function, tensor::WeightType::type, compute::Profile::profile, Isa::isa, function},
#include "kernels/cpu/tiles/tiles.inc"
#undef TZ_TILES
};

constexpr QuantizeKernel kQuantize[] = {
#define TZ_QUANTIZE(function, isa) {#function, Isa::isa, function},
#include "kernels/cpu/quantize/quantize.inc"
#undef TZ_QUANTIZE
};

constexpr ActivationKernel kActivation[] = {
#define TZ_ACTIVATION(function, isa) {#function, Isa::isa, function},
#include "kernels/cpu/activation/activation.inc"
#undef TZ_ACTIVATION
};

constexpr EncodeKernel kEncode[] = {
#define TZ_ENCODE(function, source, type, isa) \
  {#function, tensor::DType::source, tensor::WeightType::type, Isa::isa, function},
#include "kernels/cpu/quantize/encode.inc"
#undef TZ_ENCODE
};

constexpr std::array kTypes = {tensor::WeightType::f32,  tensor::WeightType::f16,
                               tensor::WeightType::bf16, tensor::WeightType::q8_0,
                               tensor::WeightType::q4_k, tensor::WeightType::q6_k};

template <typename Kernel, typename Fits>
const Kernel& widest(std::span<const Kernel> table, Isa isa, Fits fits) {
  const Kernel* best = nullptr;
  for (const Kernel& line : table) {
    if (line.isa <= isa && fits(line) && (best == nullptr || best->isa < line.isa)) best = &line;
  }
  TENZRO_ASSERT(best != nullptr);
  return *best;
}

}  // namespace

std::span<const MatmulKernel> matmul_kernels() {
  return kMatmul;
}

std::span<const FastKernel> fast_kernels() {
  return kFast;
}

bool FastKernel::is_available() const {
  return kernels::is_available(isa) && __builtin_cpu_supports("avx512bf16");
}

std::span<const TileKernel> tile_kernels() {
  return kTiles;
}

std::span<const QuantizeKernel> quantize_kernels() {
  return kQuantize;
}

std::span<const ActivationKernel> activation_kernels() {
  return kActivation;
}

std::span<const EncodeKernel> encode_kernels() {
  return kEncode;
}

const MatmulKernel& KernelSet::matmul_of(tensor::WeightType type) const {
  for (const MatmulKernel& kernel : matmul) {
    if (kernel.type == type) return kernel;
  }
  TENZRO_ASSERT(false);
  return matmul.front();
}

const TileKernel* KernelSet::tiles_of(tensor::WeightType type, compute::Profile profile) const {
  for (const TileKernel& line : tiles) {
    if (line.type != type || line.profile != profile) continue;
    // Rows become bf16 by what the fast kernel has for it.
    if (profile == compute::Profile::exact || fast_bf16) return &line;
  }
  return nullptr;
}

KernelSet kernels_up_to(Isa isa) {
  const auto any = [](const auto& /*line*/) { return true; };
  KernelSet set{.isa = isa,
                .matmul = {},
                .fast_bf16 = std::nullopt,
                .tiles = {},
                .quantize = widest(quantize_kernels(), isa, any),
                .activation = widest(activation_kernels(), isa, any)};
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    set.matmul.at(i) =
        widest(matmul_kernels(), isa,
               [type = kTypes.at(i)](const MatmulKernel& line) { return line.type == type; });
  }
  for (const FastKernel& line : fast_kernels()) {
    if (line.isa <= isa && line.is_available()) set.fast_bf16 = line;
  }
  if (isa >= Isa::amx) set.tiles = tile_kernels();  // the one ISA that has any
  return set;
}

}  // namespace tenzro::kernels
