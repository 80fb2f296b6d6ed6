#pragma once
/// \file
/// What decides slots and weights: the metadata key `tenzro.router`, or the two legacy keys.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::wire {

inline constexpr std::string_view kRouterKey = "tenzro.router";
inline constexpr std::string_view kLegacyScaleKey = "routed_scaling_factor";
inline constexpr std::string_view kLegacySharedKey = "shared_experts";

/// Checked on its own and against the number of experts.
[[nodiscard]] Result<RouterSpec> parse_router_spec(std::string_view text,
                                                   std::uint32_t num_experts);
/// Every key, so that a reader needs no defaults; `top_k` only where there is one.
[[nodiscard]] std::string router_spec_text(const RouterSpec& spec);

/// The rule of blobs without `tenzro.router`; the values are the legacy keys', null where absent.
[[nodiscard]] Result<RouterSpec> legacy_router_spec(bool has_bias, const std::string* scale,
                                                    const std::string* shared_experts);

}  // namespace tenzro::wire
