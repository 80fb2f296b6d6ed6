#pragma once
/// \file
/// Naive twins of the K quantisers: one group, one element at a time, as the reference is defined.
/// For finite blocks only. To be compiled without contraction of products and sums.
#include <cstddef>
#include <span>

namespace tenzro::test {

void encode_naive_q4_k(std::span<const float, 256> x, std::span<std::byte, 144> block);
void encode_naive_q6_k(std::span<const float, 256> x, std::span<std::byte, 210> block);

}  // namespace tenzro::test
