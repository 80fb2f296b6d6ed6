#include "kernels/cpu/backend/base64_table.hpp"

extern "C" {
#define TZ_BASE64(encoder, decoder, isa, least)                          \
  std::size_t encoder(const std::uint8_t* in, std::size_t n, char* out); \
  std::size_t decoder(const char* in, std::size_t n, std::uint8_t* out);
#include "kernels/cpu/base64/base64.inc"
#undef TZ_BASE64
}

namespace tenzro::kernels {
namespace {

constexpr Base64Line kLines[] = {
#define TZ_BASE64(encoder, decoder, isa, least) {#isa, Isa::least, {encoder, decoder}},
#include "kernels/cpu/base64/base64.inc"
#undef TZ_BASE64
};

}  // namespace

bool Base64Line::is_available() const {
  if (!kernels::is_available(isa)) return false;
  return isa == Isa::avx2 || __builtin_cpu_supports("avx512vbmi");
}

std::span<const Base64Line> base64_lines() {
  return kLines;
}

Base64Kernels base64_kernels(Isa isa) {
  Base64Kernels best = scalar_base64_kernels();
  for (const Base64Line& line : base64_lines()) {
    if (line.isa <= isa && line.is_available()) best = line.kernels;
  }
  return best;
}

}  // namespace tenzro::kernels
