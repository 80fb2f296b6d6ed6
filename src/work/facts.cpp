#include <algorithm>
#include <array>

#include "tenzro/work/job.hpp"

namespace tenzro::work {

bool ExpertFacts::is_quantized() const {
  return (!gate_type || tensor::is_quantized(*gate_type)) && tensor::is_quantized(up_type) &&
         tensor::is_quantized(down_type);
}

std::optional<tensor::WeightType> ExpertFacts::coarsest_quant() const {
  using tensor::WeightType;
  constexpr std::array kCoarsestFirst{WeightType::q4_k, WeightType::q6_k, WeightType::q8_0};
  for (const WeightType type : kCoarsestFirst) {
    if (gate_type == type || up_type == type || down_type == type) return type;
  }
  return std::nullopt;
}

}  // namespace tenzro::work
