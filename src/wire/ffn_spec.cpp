#include "ffn_spec.hpp"

#include <array>
#include <limits>

#include "spec_reader.hpp"
#include "spec_text.hpp"

namespace tenzro::wire {
namespace {

using compute::Activation;
using compute::FfnSpec;

constexpr std::array<Choice<Activation>, 6> kActivations{{
    {"silu", Activation::silu},
    {"silu_clamped", Activation::silu_clamped},
    {"swigluoai", Activation::swigluoai},
    {"gelu_tanh", Activation::gelu_tanh},
    {"relu2", Activation::relu2},
    {"situ", Activation::situ},
}};

/// Divisors and clamps: positive, and neither zero nor infinite once they are f32. The upper end is
/// the shortest text of the largest f32, which lies above it and rounds to it.
constexpr NumberRange kPositive{std::numeric_limits<float>::min(), 3.4028235e38};

void read_number(SpecReader& reader, std::string_view key, float& value) {
  double wide = value;
  reader.number(key, wide, kPositive);
  value = static_cast<float>(wide);
}

}  // namespace

Result<FfnSpec> parse_ffn_spec(std::string_view text) {
  FfnSpec spec;
  SpecReader reader(kFfnKey, text);
  reader.choice("activation", spec.activation, std::span<const Choice<Activation>>(kActivations));
  read_number(reader, "limit", spec.limit);
  read_number(reader, "alpha", spec.alpha);
  read_number(reader, "beta", spec.beta);
  read_number(reader, "linear_beta", spec.linear_beta);
  if (spec.activation == Activation::silu_clamped && !reader.has("limit")) {
    reader.refuse("'limit' is missing, and silu_clamped needs it");
  }
  if (Status status = reader.finish(); !status) return fail(status.error());
  return spec;
}

std::optional<std::string> ffn_spec_text(const FfnSpec& spec) {
  if (spec.activation == Activation::silu) return std::nullopt;
  SpecText text;
  text.name("activation",
            name_in(std::span<const Choice<Activation>>(kActivations), spec.activation));
  if (spec.activation == Activation::silu_clamped) text.number("limit", spec.limit);
  if (spec.activation == Activation::swigluoai) {
    text.number("limit", spec.limit);
    text.number("alpha", spec.alpha);
  }
  if (spec.activation == Activation::situ) {
    text.number("beta", spec.beta);
    text.number("linear_beta", spec.linear_beta);
  }
  return text.text();
}

}  // namespace tenzro::wire
