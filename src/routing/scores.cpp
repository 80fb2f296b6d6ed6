#include "scores.hpp"

#include <algorithm>
#include <cmath>

namespace tenzro::routing {

float sigmoid(float logit) {
  return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(logit))));
}

float sqrt_softplus(float logit) {
  // Above 20 the correction e^-x is under half an f32 ulp of x, and e^x would overflow later on.
  constexpr float kLinearAbove = 20.0F;
  const auto x = static_cast<double>(logit);
  return static_cast<float>(std::sqrt(logit > kLinearAbove ? x : std::log1p(std::exp(x))));
}

void softmax(std::span<float> values, std::vector<double>& exps) {
  const auto top = static_cast<double>(*std::max_element(values.begin(), values.end()));
  exps.resize(values.size());
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    exps[i] = std::exp(static_cast<double>(values[i]) - top);
    sum += exps[i];
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(exps[i] / sum);
}

void score(wire::Scoring scoring, std::span<float> logits, std::vector<double>& exps) {
  switch (scoring) {
    case wire::Scoring::softmax:
      softmax(logits, exps);
      return;
    case wire::Scoring::sigmoid:
      for (float& logit : logits) logit = sigmoid(logit);
      return;
    case wire::Scoring::sqrtsoftplus:
      for (float& logit : logits) logit = sqrt_softplus(logit);
      return;
  }
}

}  // namespace tenzro::routing
