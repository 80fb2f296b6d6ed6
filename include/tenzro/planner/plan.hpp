#pragma once
/// \file
/// Which holder runs which expert for which token: a pure function of the routing, the shard view
/// and what this node thinks of the holders.
///
/// Rules, the earlier before the later
///  - Out of the question: excluded holders, those that do not run the profile, those that are
///  leaving where a dependable one that stays is left, and by `allow_cold` cold ones: absent = only
///  where no dependable warm holder is left, false = never, true = any. None of this but exclusion
///  binds this node itself, and its leaving where it is not preferred.
///  - This node first (`prefers_self`), on either tier. Why: no wire, no receipt.
///  - Suspect and quarantined holders last; before them those that said to be busy.
///  - Warm before cold. GPU before CPU where the expert is hot (some holder's rate reaches
///  `hot_threshold_tps`): a GPU that serves every expert serves none well.
///  - Of those that are equal so far two are drawn by a hash of (request, layer, expert); the one
///  with the lower (calls in flight + 1) · expected time is the primary, a tie goes to the first
///  drawn. Why two and not the best of all: routers that choose alike would all run to one holder.
///  - The others stand by: the dependable ones that hold the primary's very bytes, then those that
///  hold the same types or tell nothing, then other types; then by the rules above, by load, by the
///  hash, by address. At most `standbys_max`.
///  - Equal input gives an equal plan. Without `standings` nobody is quarantined or busy and every
///  load is equal.
///  - A token is listed once a batch, in order of first appearance. Batches are sorted by (layer,
///  expert).
///  - Experts without an eligible holder are listed; the caller decides between failing closed and
///  going on without.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/ledger/standing.hpp"
#include "tenzro/shards/view.hpp"

namespace tenzro::planner {

using shards::View;

inline constexpr std::size_t kStandbysMax = 8;

struct TokenExperts {
  std::uint32_t token_index = 0;
  std::vector<View::Slot> experts;
};

struct Options {
  std::optional<ProviderAddress> self;
  bool prefers_self = true;
  std::optional<bool> allow_cold;
  /// Absent: any.
  std::optional<compute::Profile> profile;
  /// What draws are made of, beside the slot.
  std::uint64_t request = 0;
  const ledger::Standings* standings = nullptr;
  Instant now;
  std::uint32_t hot_threshold_tps = 1000;
  std::set<ProviderAddress> excluded;
};

/// A holder of one expert, and what it declares to hold.
struct Holder {
  ProviderAddress provider{};
  std::optional<shards::WeightTypes> types;
  BlobHash blob{};
};

struct Batch {
  View::Slot slot;
  /// The primary, then the standbys; never empty in Plan::batches.
  std::vector<Holder> holders;
  std::vector<std::uint32_t> tokens;

  [[nodiscard]] const ProviderAddress& provider() const { return holders.front().provider; }
};

struct Plan {
  std::vector<Batch> batches;
  /// Experts that nobody eligible holds, with the tokens that want them, in (layer, expert) order.
  std::vector<Batch> unreachable;
};

[[nodiscard]] Plan make_plan(const ModelId& model, const std::vector<TokenExperts>& routing,
                             const View& view, const Options& options);

/// The hash behind the draws.
[[nodiscard]] std::uint64_t draw(std::uint64_t request, View::Slot slot);
/// The place of a holder where nothing else decides.
[[nodiscard]] std::uint64_t lot(std::uint64_t draw, const ProviderAddress& provider);

/// "expert lL/eE has no reachable holder", which clients match on.
[[nodiscard]] std::string unreachable_text(View::Slot slot);

}  // namespace tenzro::planner
