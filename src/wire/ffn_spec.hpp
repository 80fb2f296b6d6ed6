#pragma once
/// \file
/// The metadata key `tenzro.ffn`: which activation an expert has, and its parameters.
#include <optional>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/compute/weights.hpp"

namespace tenzro::wire {

inline constexpr std::string_view kFfnKey = "tenzro.ffn";

[[nodiscard]] Result<compute::FfnSpec> parse_ffn_spec(std::string_view text);
/// Nothing for SwiGLU, which is what an absent key means.
[[nodiscard]] std::optional<std::string> ffn_spec_text(const compute::FfnSpec& spec);

}  // namespace tenzro::wire
