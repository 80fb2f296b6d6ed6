#pragma once
/// \file
/// One block of each GGUF type that is decoded but not served: see tenzro/tensor/ggml_type.hpp.
///
/// `block` holds the type's bytes, `out` takes its elements.
#include <cstddef>

namespace tenzro::tensor {

void decode_q4_0(const std::byte* block, float* out);
void decode_q4_1(const std::byte* block, float* out);
void decode_q5_0(const std::byte* block, float* out);
void decode_q5_1(const std::byte* block, float* out);
void decode_q5_k(const std::byte* block, float* out);
void decode_mxfp4(const std::byte* block, float* out);
void decode_iq4_nl(const std::byte* block, float* out);
void decode_iq4_xs(const std::byte* block, float* out);
void decode_q2_k(const std::byte* block, float* out);
void decode_q3_k(const std::byte* block, float* out);
void decode_q1_0(const std::byte* block, float* out);
void decode_q2_0(const std::byte* block, float* out);
void decode_tq1_0(const std::byte* block, float* out);
void decode_tq2_0(const std::byte* block, float* out);

}  // namespace tenzro::tensor
