#include "kernels/cpu/abi.hpp"
#include "kernels/cpu/quantize/encode_lanes__avx512.hpp"
#include "kernels/cpu/quantize/q4_k_search.hpp"
#include "kernels/cpu/quantize/q6_k_search.hpp"

extern "C" void tz_f32_encode_q4_k__avx512(const void* x, std::size_t blocks, std::uint8_t* out) {
  q4_row(static_cast<const float*>(x), blocks, out);
}

extern "C" void tz_f32_encode_q6_k__avx512(const void* x, std::size_t blocks, std::uint8_t* out) {
  q6_row(static_cast<const float*>(x), blocks, out);
}
