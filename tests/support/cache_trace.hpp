#pragma once
/// \file
/// Traces of expert uses, and what a memory of so many experts hits of them under each policy: the
/// real one, exact least-recently-used, and the best fixed choice in hindsight.
///
/// Every expert takes one byte here, so that a capacity is a number of experts.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenzro::testing {

/// Numbers of experts, in the order of use.
using CacheTrace = std::vector<std::uint32_t>;

/// Expert i of n with a chance proportional to 1 / (i + 1), in a shuffled order of names.
[[nodiscard]] CacheTrace zipf_trace(std::uint32_t experts, std::size_t uses, std::uint64_t seed);
[[nodiscard]] CacheTrace uniform_trace(std::uint32_t experts, std::size_t uses, std::uint64_t seed);
/// Round and round through all experts.
[[nodiscard]] CacheTrace loop_trace(std::uint32_t experts, std::size_t uses);
/// Zipf over the first half; every third use is the next of a walk through the others.
[[nodiscard]] CacheTrace scan_trace(std::uint32_t experts, std::size_t uses, std::uint64_t seed);

/// As a router makes them: token after token through `layers` layers, `top_k` of `per_layer`
/// experts in each; favourites of a layer are Zipf, and move when the subject changes, every
/// `subject_tokens`. Expert e of layer l is number l · per_layer + e.
struct ReplayShape {
  std::uint32_t layers = 58;
  std::uint32_t per_layer = 384;
  std::uint32_t top_k = 8;
  std::size_t subject_tokens = 200;
};

[[nodiscard]] CacheTrace replay_trace(const ReplayShape& shape, std::size_t uses,
                                      std::uint64_t seed);

/// Shares of uses from `warm` on that found their expert in memory.
[[nodiscard]] double retention_hits(const CacheTrace& trace, std::size_t capacity,
                                    std::size_t warm = 0);
[[nodiscard]] double naive_lru_hits(const CacheTrace& trace, std::size_t capacity,
                                    std::size_t warm = 0);
/// The `capacity` most used experts of the whole trace stay from the beginning.
[[nodiscard]] double oracle_static_hits(const CacheTrace& trace, std::size_t capacity,
                                        std::size_t warm = 0);

}  // namespace tenzro::testing
