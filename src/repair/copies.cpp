#include "tenzro/repair/copies.hpp"

#include <algorithm>
#include <map>

namespace tenzro::repair {

Copies count_copies(const std::vector<shards::Candidate>& holders, shards::View::Slot slot,
                    const std::vector<Absent::Holder>& absent, const ProviderAddress& self) {
  Copies copies;
  for (const shards::Candidate& holder : holders) {
    const shards::Provider& provider = *holder.provider;
    copies.is_held_here = copies.is_held_here || provider.address == self;
    copies.rate_max = std::max(copies.rate_max, provider.committed_tps);
    if (provider.is_draining) {
      ++copies.leaving;
      continue;
    }
    copies.rate_min = copies.staying == 0 ? provider.committed_tps
                                          : std::min(copies.rate_min, provider.committed_tps);
    ++copies.staying;
    if (provider.health == shards::Health::alive) ++copies.alive;
  }
  for (const Absent::Holder& gone : absent) {
    const bool is_back = std::any_of(holders.begin(), holders.end(), [&](const auto& holder) {
      return holder.provider->address == gone.address;
    });
    if (!is_back && gone.slots->contains(slot)) ++copies.absent;
  }
  return copies;
}

Need need_of(const Copies& copies, const Policy& policy) {
  const std::size_t counted = copies.counted();
  if (counted < policy.min_replication) return {.missing = policy.min_replication - counted};
  if (copies.staying == 0) return {.missing = copies.leaving > 0 ? 1U : 0U};
  const bool is_hot = copies.rate_min >= policy.hot_threshold_tps;
  if (is_hot && counted < policy.max_replication) return {.missing = 1, .is_hot = true};
  return {};
}

BlobChoice choose_blob(const std::vector<shards::Candidate>& holders,
                       const std::optional<BlobHash>& known) {
  std::map<BlobHash, std::size_t> votes;
  std::size_t most = 0;
  for (const shards::Candidate& holder : holders) {
    if (holder.holding->blob != BlobHash{} && holder.holding->blob_uri)
      most = std::max(most, ++votes[holder.holding->blob]);
  }
  std::erase_if(votes, [&](const auto& vote) { return vote.second < most; });
  if (votes.empty()) return {};
  if (votes.size() == 1) return {.blob = votes.begin()->first};
  if (known && votes.contains(*known)) return {.blob = known};
  return {.is_disputed = true};
}

}  // namespace tenzro::repair
