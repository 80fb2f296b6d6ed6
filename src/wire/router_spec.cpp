#include "router_spec.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "spec_reader.hpp"
#include "spec_text.hpp"

namespace tenzro::wire {
namespace {

constexpr std::array<Choice<Scoring>, 3> kScorings{{
    {"softmax", Scoring::softmax},
    {"sigmoid", Scoring::sigmoid},
    {"sqrtsoftplus", Scoring::sqrtsoftplus},
}};
constexpr std::array<Choice<SelectionOrder>, 2> kOrders{{
    {"score_then_topk", SelectionOrder::score_then_topk},
    {"topk_then_softmax", SelectionOrder::topk_then_softmax},
}};
constexpr std::array<Choice<ScaleOn>, 2> kScaleOns{{
    {"weights", ScaleOn::weights},
    {"output", ScaleOn::output},
}};
constexpr std::array<Choice<BiasOn>, 2> kBiasOns{{
    {"selection", BiasOn::selection},
    {"logits", BiasOn::logits},
}};
constexpr std::array<Choice<SharedGate>, 2> kSharedGates{{
    {"none", SharedGate::none},
    {"sigmoid", SharedGate::sigmoid},
}};
constexpr std::array<Choice<InputNorm>, 2> kInputNorms{{
    {"none", InputNorm::none},
    {"rms", InputNorm::rms},
}};

constexpr double kF32Max = std::numeric_limits<float>::max();
constexpr NumberRange kFinite{-kF32Max, kF32Max};
constexpr NumberRange kNotNegative{0, kF32Max};
/// What the reference classes add to a sum of sigmoids.
constexpr double kDefaultEpsilon = 1e-20;

template <typename E, std::size_t N>
void read_choice(SpecReader& reader, std::string_view key, E& value,
                 const std::array<Choice<E>, N>& choices) {
  reader.choice(key, value, std::span<const Choice<E>>(choices));
}

template <typename E, std::size_t N>
std::string_view name_of(const std::array<Choice<E>, N>& choices, E value) {
  return name_in(std::span<const Choice<E>>(choices), value);
}

void read_shared(SpecReader& reader, RouterSpec& spec) {
  reader.object("shared");
  reader.integer("shared.count", spec.shared_count, 0);
  read_choice(reader, "shared.gate", spec.shared_gate, kSharedGates);
}

void read_top_k(SpecReader& reader, RouterSpec& spec) {
  if (!reader.has("top_k")) return;
  std::uint32_t top_k = 0;
  reader.integer("top_k", top_k, 1);
  spec.top_k = top_k;
}

void check_together(SpecReader& reader, const RouterSpec& spec, std::uint32_t num_experts) {
  if (num_experts % spec.n_group != 0) {
    reader.refuse("'n_group' " + std::to_string(spec.n_group) + " does not divide " +
                  std::to_string(num_experts) + " experts");
  }
  if (spec.topk_group > spec.n_group) {
    reader.refuse("'topk_group' " + std::to_string(spec.topk_group) + " is above 'n_group' " +
                  std::to_string(spec.n_group));
  }
  if (spec.order == SelectionOrder::topk_then_softmax && spec.scoring != Scoring::softmax) {
    reader.refuse("'order' topk_then_softmax goes with 'scoring' softmax only, not " +
                  std::string(name_of(kScorings, spec.scoring)));
  }
}

/// A decimal number as the legacy keys hold it, or nothing where the text is not one.
template <typename T>
std::optional<T> parse_decimal(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<RouterSpec> parse_router_spec(std::string_view text, std::uint32_t num_experts) {
  RouterSpec spec;
  spec.declared = true;
  SpecReader reader(kRouterKey, text);
  read_choice(reader, "scoring", spec.scoring, kScorings);
  read_choice(reader, "order", spec.order, kOrders);
  reader.flag("normalize", spec.normalize);
  spec.epsilon = spec.scoring == Scoring::softmax ? 0 : kDefaultEpsilon;
  reader.number("epsilon", spec.epsilon, kNotNegative);
  reader.number("scale", spec.scale, kFinite);
  read_choice(reader, "scale_on", spec.scale_on, kScaleOns);
  reader.integer("n_group", spec.n_group, 1);
  spec.topk_group = spec.n_group;
  reader.integer("topk_group", spec.topk_group, 1);
  read_top_k(reader, spec);
  read_shared(reader, spec);
  read_choice(reader, "bias_on", spec.bias_on, kBiasOns);
  read_choice(reader, "input_norm", spec.input_norm, kInputNorms);
  reader.number("input_norm_eps", spec.input_norm_eps, kNotNegative);
  reader.number("latent_norm_eps", spec.latent_norm_eps, kNotNegative);
  check_together(reader, spec, num_experts);
  if (Status status = reader.finish(); !status) return fail(status.error());
  return spec;
}

std::string router_spec_text(const RouterSpec& spec) {
  SpecText shared;
  shared.integer("count", spec.shared_count);
  shared.name("gate", name_of(kSharedGates, spec.shared_gate));
  SpecText text;
  text.name("scoring", name_of(kScorings, spec.scoring));
  text.name("order", name_of(kOrders, spec.order));
  text.flag("normalize", spec.normalize);
  text.number("epsilon", spec.epsilon);
  text.number("scale", spec.scale);
  text.name("scale_on", name_of(kScaleOns, spec.scale_on));
  text.integer("n_group", spec.n_group);
  text.integer("topk_group", spec.topk_group);
  if (spec.top_k) text.integer("top_k", *spec.top_k);
  text.object("shared", shared);
  text.name("bias_on", name_of(kBiasOns, spec.bias_on));
  text.name("input_norm", name_of(kInputNorms, spec.input_norm));
  text.number("input_norm_eps", spec.input_norm_eps);
  text.number("latent_norm_eps", spec.latent_norm_eps);
  return text.text();
}

Result<RouterSpec> legacy_router_spec(bool has_bias, const std::string* scale,
                                      const std::string* shared_experts) {
  RouterSpec spec;
  if (shared_experts != nullptr) {
    spec.shared_count = parse_decimal<std::uint32_t>(*shared_experts).value_or(0);
  }
  if (!has_bias) {
    spec.order = SelectionOrder::topk_then_softmax;
    return spec;
  }
  spec.scoring = Scoring::sigmoid;
  spec.epsilon = std::numeric_limits<float>::epsilon();
  spec.epsilon_is_floor = true;
  if (scale != nullptr) spec.scale = parse_decimal<double>(*scale).value_or(1);
  // "inf" and "nan" do parse, and would make every weight so.
  if (!(std::abs(spec.scale) <= kF32Max)) {
    return fail(ErrorCode::runtime, std::string(kLegacyScaleKey), "not a finite number");
  }
  return spec;
}

}  // namespace tenzro::wire
