#pragma once
/// \file
/// Which tier of an expert others are told, and when: what is live here, without storms.
///
/// Rules
///  - A change of tier is told within a heartbeat, together with the others of that heartbeat.
///  - An expert that was evicted counts as cold from then on until it has stayed in memory for a
///  heartbeat. Why: one that comes and goes would otherwise make a new record each time, and be
///  gone again when somebody chose it for being warm.
///  - One that comes for the first time, or was never evicted lately, is told warm.
/// Cost: O(log n) a change, O(n) of those that were evicted lately an announcement. Bound: the
/// owner's holdings. Thread: the owner's only. Pure.
#include <functional>
#include <map>
#include <optional>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/time.hpp"

namespace tenzro::node {

class TierNews {
 public:
  explicit TierNews(Duration heartbeat) : heartbeat_(heartbeat) {}

  void on_tier_changed(Instant now, const ExpertKey& key, bool is_in_memory);

  void on_withdrawn(const ExpertKey& key) { unsettled_.erase(key); }

  /// Before an announcement: forgets those that have settled. The time at which the next of those
  /// in memory does, which is worth another announcement.
  std::optional<Instant> settle(Instant now,
                                const std::function<bool(const ExpertKey&)>& is_in_memory);

  [[nodiscard]] bool is_told_warm(const ExpertKey& key, bool is_in_memory) const {
    return is_in_memory && !unsettled_.contains(key);
  }

 private:
  Duration heartbeat_;
  /// Experts that were evicted, and when they last came or went.
  std::map<ExpertKey, Instant> unsettled_;
};

}  // namespace tenzro::node
