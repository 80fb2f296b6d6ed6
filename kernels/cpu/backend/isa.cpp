#include <array>

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tenzro/kernels/cpu.hpp"

namespace tenzro::kernels {
namespace {

constexpr std::array kNames = {std::string_view("scalar"), std::string_view("avx2"),
                               std::string_view("avx512"), std::string_view("avx512vnni"),
                               std::string_view("amx")};

/// Not among the names that clang 14 lets __builtin_cpu_supports ask for.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// Each asks for every flag that kernels/cpu/CMakeLists.txt compiles that ISA's files with. The
// builtin also checks that the operating system saves the registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

/// Tiles are 8 KiB of registers, which Linux saves for those who asked (arch_prctl(2)); asking
/// twice does no harm.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_amx() {
  constexpr unsigned kBf16 = 1U << 22U;
  constexpr unsigned kTile = 1U << 24U;
  constexpr unsigned kInt8 = 1U << 25U;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kAll = kBf16 | kTile | kInt8;
  return (d & kAll) == kAll && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bf16") && has_avx512() && may_use_tiles();
}

}  // namespace

std::string_view name_of(Isa isa) {
  return kNames.at(static_cast<std::size_t>(isa));
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i) == name) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

bool is_available(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return has_avx2();
    case Isa::avx512:
      return has_avx512();
    case Isa::avx512vnni:
      return has_avx512() && __builtin_cpu_supports("avx512vnni");
    case Isa::amx: {
      static const bool kHas = has_amx();
      return kHas;
    }
  }
  return false;
}

Isa best_isa() {
  for (const Isa isa : {Isa::amx, Isa::avx512vnni, Isa::avx512, Isa::avx2}) {
    if (is_available(isa)) return isa;
  }
  return Isa::scalar;
}

}  // namespace tenzro::kernels
