#pragma once
/// \file
/// Which holder runs which expert for which token: a pure function of the routing and the shard
/// view.
///
/// Rules
///  - An expert that this node holds, on either tier, is always eligible; it goes first. Why: no
///  wire, no receipt.
///  - `allow_cold` absent: warm holders first, cold ones where no warm one exists; false: warm
///  only; true: any.
///  - Equal input gives an equal plan: candidates come ranked by the view, ties by address.
///  - A token is listed once a batch, in order of first appearance. Batches are sorted by (layer,
///  expert, provider).
///  - Experts without an eligible holder are listed; the caller decides between failing closed and
///  going on without.
#include <cstdint>
#include <optional>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/shards/view.hpp"

namespace tenzro::planner {

using shards::View;

struct TokenExperts {
  std::uint32_t token_index = 0;
  std::vector<View::Slot> experts;
};

struct Options {
  std::optional<ProviderAddress> self;
  std::optional<bool> allow_cold;
};

struct Batch {
  View::Slot slot;
  ProviderAddress provider{};
  /// Eligible holders after the chosen one, in order.
  std::vector<ProviderAddress> standbys;
  std::vector<std::uint32_t> tokens;
};

struct Plan {
  std::vector<Batch> batches;
  /// Experts that nobody eligible holds, with the tokens that want them, in (layer, expert) order.
  std::vector<Batch> unreachable;
};

[[nodiscard]] Plan make_plan(const ModelId& model, const std::vector<TokenExperts>& routing,
                             const View& view, const Options& options);

/// "expert lL/eE has no reachable holder", which clients match on.
[[nodiscard]] std::string unreachable_text(View::Slot slot);

}  // namespace tenzro::planner
