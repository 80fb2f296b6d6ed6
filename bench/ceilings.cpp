#include "ceilings.hpp"

#include <cstring>
#include <memory>

#include <immintrin.h>
#include <sys/mman.h>

#include "tenzro/kernels/cpu.hpp"

// Functions below name the instructions they need, and are called where the CPU has them.
#define TZ_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl"), noinline))
#define TZ_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni"), noinline))
#define TZ_AVX2 __attribute__((target("avx2,fma"), noinline))

namespace tenzro::bench {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr std::size_t kLine = 64;
constexpr std::size_t kChunk = 512;  ///< what is read of a stream before the next has its turn

volatile std::uint64_t sink = 0;  // so that no result is unused

template <std::size_t Streams, int Ahead>
TZ_AVX512 std::uint64_t read_512(const std::uint8_t* data, std::size_t bytes) {
  __m512i sums[Streams];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  const std::size_t part = bytes / Streams;
  for (std::size_t at = 0; at < part; at += kChunk) {
    for (std::size_t stream = 0; stream < Streams; ++stream) {
      const std::uint8_t* chunk = data + stream * part + at;
      for (std::size_t i = 0; i < kChunk; i += kLine) {
        if constexpr (Ahead != 0) _mm_prefetch(chunk + i + Ahead, _MM_HINT_T0);
        sums[stream] = _mm512_add_epi32(sums[stream], _mm512_load_si512(chunk + i));
      }
    }
  }
  __m512i all = sums[0];
  for (std::size_t stream = 1; stream < Streams; ++stream)
    all = _mm512_add_epi32(all, sums[stream]);
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi32(all));
}

template <std::size_t Streams>
std::uint64_t read_plain(const std::uint8_t* data, std::size_t bytes) {
  std::uint64_t sum = 0;
  const std::size_t part = bytes / Streams;
  for (std::size_t at = 0; at < part; at += kLine) {
    for (std::size_t stream = 0; stream < Streams; ++stream) {
      std::uint64_t words[kLine / sizeof(std::uint64_t)];
      std::memcpy(words, data + stream * part + at, sizeof words);
      for (const std::uint64_t word : words) sum += word;
    }
  }
  return sum;
}

constexpr std::size_t kSums = 16;  ///< independent ones, to hide an instruction's latency
constexpr std::size_t kRounds = 100'000;

TZ_AVX512 void fma_512() {
  __m512 sums[kSums];
  for (std::size_t i = 0; i < kSums; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  __m512 x = _mm512_set1_ps(0.5F);
  for (std::size_t round = 0; round < kRounds; ++round) {
    asm volatile("" : "+v"(x));
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, x, x);
  }
  for (const __m512& sum : sums) sink = sink + static_cast<std::uint64_t>(_mm512_cvtss_f32(sum));
}

TZ_AVX2 void fma_256() {
  constexpr std::size_t kYmmSums = 12;
  __m256 sums[kYmmSums];
  for (std::size_t i = 0; i < kYmmSums; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  __m256 x = _mm256_set1_ps(0.5F);
  for (std::size_t round = 0; round < kRounds; ++round) {
    asm volatile("" : "+x"(x));
#pragma GCC unroll 16
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, x, x);
  }
  for (const __m256& sum : sums) sink = sink + static_cast<std::uint64_t>(_mm256_cvtss_f32(sum));
}

TZ_VNNI void vnni_512() {
  __m512i sums[kSums];
  for (std::size_t i = 0; i < kSums; ++i) sums[i] = _mm512_set1_epi32(static_cast<int>(i));
  __m512i x = _mm512_set1_epi8(3);
  for (std::size_t round = 0; round < kRounds; ++round) {
    asm volatile("" : "+v"(x));
#pragma GCC unroll 16
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, x, x);
  }
  for (const __m512i& sum : sums)
    sink = sink + static_cast<std::uint64_t>(_mm512_reduce_add_epi32(sum));
}

struct TileConfig {
  std::uint8_t palette;
  std::uint8_t start_row;
  std::uint8_t reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};

void begin_tiles() {
  TileConfig config{};
  config.palette = 1;
  for (std::size_t tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = 64;
    config.rows[tile] = 16;
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
  asm volatile(
      "tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3\n\t"
      "tilezero %tmm4\n\ttilezero %tmm5\n\ttilezero %tmm6\n\ttilezero %tmm7");
}

void amx_int8() {
  begin_tiles();
  for (std::size_t round = 0; round < kRounds / 10; ++round) {
    asm volatile(
        "tdpbssd %tmm6, %tmm4, %tmm0\n\ttdpbssd %tmm7, %tmm4, %tmm1\n\t"
        "tdpbssd %tmm6, %tmm5, %tmm2\n\ttdpbssd %tmm7, %tmm5, %tmm3");
  }
  asm volatile("tilerelease");
}

void amx_bf16() {
  begin_tiles();
  for (std::size_t round = 0; round < kRounds / 10; ++round) {
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  }
  asm volatile("tilerelease");
}

}  // namespace

ColdMemory::ColdMemory(std::size_t bytes) {
  void* mapping =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = mapping;
  size_ = bytes;
  void* aligned = mapping;
  std::size_t room = bytes + kHugePage;
  std::align(kHugePage, bytes, aligned, room);
  data_ = static_cast<std::uint8_t*>(aligned);
  static_cast<void>(madvise(aligned, bytes / kHugePage * kHugePage, MADV_HUGEPAGE));
  std::memset(data_, 1, bytes);
}

ColdMemory::~ColdMemory() {
  if (mapping_ != nullptr) munmap(mapping_, size_ + kHugePage);
}

std::vector<Reader> readers() {
  if (!kernels::is_available(kernels::Isa::avx512)) {
    return {{"1 stream", read_plain<1>}, {"4 streams", read_plain<4>}};
  }
  return {{"1 stream", read_512<1, 0>},
          {"1 stream, asked for 4 KiB ahead", read_512<1, 4096>},
          {"4 streams", read_512<4, 0>},
          {"4 streams, asked for 2 KiB ahead", read_512<4, 2048>}};
}

std::vector<Products> products() {
  constexpr double kWide = kSums * kRounds * 2e-9;
  constexpr double kTile = 4 * (kRounds / 10) * 16 * 16 * 2e-9;
  const bool has_wide = kernels::is_available(kernels::Isa::avx512);
  const bool has_amx = kernels::is_available(kernels::Isa::amx);
  std::vector<Products> all;
  if (has_wide) {
    all.push_back({"FMA f32", kWide * 16, fma_512});
  } else if (kernels::is_available(kernels::Isa::avx2)) {
    all.push_back({"FMA f32", 12 * kRounds * 2e-9 * 8, fma_256});
  } else {
    all.push_back({"FMA f32", 1, {}});
  }
  const bool has_vnni = kernels::is_available(kernels::Isa::avx512vnni);
  all.push_back({"VNNI", kWide * 64, has_vnni ? std::function<void()>(vnni_512) : nullptr});
  all.push_back({"AMX int8", kTile * 64, has_amx ? std::function<void()>(amx_int8) : nullptr});
  all.push_back({"AMX bf16", kTile * 32, has_amx ? std::function<void()>(amx_bf16) : nullptr});
  return all;
}

}  // namespace tenzro::bench
