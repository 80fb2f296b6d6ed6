#pragma once
/// \file
/// What an operator might run instead, on the same weights and shapes. Each is there where its
/// library was found when the bench was built (bench/CMakeLists.txt).
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench_experts.hpp"

namespace tenzro::bench {

/// ggml's experts of a layer, MUL_MAT_ID for each projection: what llama.cpp runs.
class GgmlExperts {
 public:
  virtual ~GgmlExperts() = default;
  /// A call runs `tokens` rows through one expert on one thread, the next expert each time.
  [[nodiscard]] virtual std::function<void()> call_for(std::size_t tokens) = 0;
};

enum class GgmlLayout {
  plain,     ///< blocks as in the file, on huge pages where allowed
  repacked,  ///< as its CPU_REPACK buffers hold them
};

/// Null where ggml is absent, or has no such layout for these types. `experts` times the weights.
[[nodiscard]] std::unique_ptr<GgmlExperts> make_ggml_experts(const Weights& weights,
                                                             std::size_t experts,
                                                             GgmlLayout layout);

struct DensePeer {
  std::string path;
  std::function<void()> call;  ///< the three products of one expert in f32, no activation
};

/// oneDNN with weights packed beforehand, and Eigen; those that are there.
[[nodiscard]] std::vector<DensePeer> dense_peers(Shape shape, std::size_t tokens);

}  // namespace tenzro::bench
