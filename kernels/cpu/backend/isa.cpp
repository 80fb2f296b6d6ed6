#include <array>

#include <cpuid.h>

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
    case Isa::amx:
      return false;
  }
  return false;
}

Isa best_isa() {
  for (const Isa isa : {Isa::avx512vnni, Isa::avx512, Isa::avx2}) {
    if (is_available(isa)) return isa;
  }
  return Isa::scalar;
}

}  // namespace tenzro::kernels
