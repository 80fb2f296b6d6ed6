#pragma once
/// \file
/// A mesh of repair cores, each with a shard view of its own, at the size of a real model: a
/// virtual clock, one queue of events, news that reaches each view after a time of its own, links
/// of a given rate, budgets, and nodes that fail.
///
/// What stands for gossip, store and fetch is as plain as can be; the cores and the views are the
/// real ones. Everything that looks random comes from the seed. What it watches: an expert without
/// any copy, a node beyond its budget, two nodes that fetch one missing copy.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/repair/repair.hpp"
#include "tenzro/shards/view.hpp"

namespace tenzro::testing {

class RepairWorld {
 public:
  using Slot = shards::View::Slot;

  struct Setup {
    std::uint64_t seed = 1;
    std::size_t nodes = 12;
    LayerIndex layers = 4;
    ExpertIndex experts = 24;
    std::size_t replication = 2;
    std::uint64_t expert_bytes = 5'000'000;
    /// Beyond what a node holds at the start.
    std::uint64_t spare_bytes = 1'000'000'000'000;
    std::uint64_t link_bytes_per_s = 100'000'000;
    /// News reaches a view after at most so long.
    Duration news_max = std::chrono::milliseconds(500);
    /// A node that falls silent leaves the views of the others after so long, and up to `news_max`
    /// more.
    Duration down_after = std::chrono::seconds(40);
    repair::Options repair;
    /// Per node, before it starts.
    std::function<void(std::size_t, repair::Options&)> tune;
    /// Nodes that begin without an expert: those from this one on.
    std::size_t holders = 0;
  };

  explicit RepairWorld(const Setup& setup);

  void run_until(Duration time);
  /// Until every expert has that many copies at nodes that are up; false where `time` comes first.
  bool run_until_replicated(std::size_t copies, Duration time);

  void crash(std::size_t node);
  void come_back(std::size_t node);
  void set_draining(std::size_t node);

  /// Its fetches fail.
  std::set<std::size_t> broken;

  [[nodiscard]] Instant now() const { return now_; }

  [[nodiscard]] std::size_t copies(Slot slot) const;
  /// The least of any expert.
  [[nodiscard]] std::size_t fewest_copies() const;
  [[nodiscard]] std::size_t most_copies() const;

  [[nodiscard]] std::uint64_t held_bytes(std::size_t node) const {
    return nodes_[node].held.size() * setup_.expert_bytes;
  }

  [[nodiscard]] std::uint64_t budget(std::size_t node) const { return nodes_[node].budget; }

  [[nodiscard]] bool holds(std::size_t node, Slot slot) const {
    return nodes_[node].held.contains(slot);
  }

  [[nodiscard]] std::size_t held(std::size_t node) const { return nodes_[node].held.size(); }

  [[nodiscard]] const repair::Repair& core(std::size_t node) const { return *nodes_[node].core; }

  struct Watched {
    std::uint64_t fetches = 0;
    std::uint64_t admitted = 0;
    std::uint64_t dropped = 0;
    std::uint64_t races = 0;  ///< fetches begun for a copy that another node is fetching, or has
    std::uint64_t lost = 0;   ///< experts that had no copy at any node that is up
    std::uint64_t over_budget = 0;  ///< admissions beyond a node's budget
    Duration last_admission{0};
  };

  [[nodiscard]] const Watched& watched() const { return watched_; }

 private:
  struct Node {
    ProviderAddress address{};
    std::unique_ptr<shards::View> view;
    std::unique_ptr<repair::Repair> core;
    std::set<Slot> held;
    std::uint64_t budget = 0;
    bool is_up = true;
    bool is_draining = false;
    std::uint64_t life = 0;
    std::uint64_t alarm = 0;
    Instant link_free;
    std::map<ExpertKey, std::uint64_t> fetching;  ///< which fetch
  };

  void at(Instant time, std::function<void()> event);
  [[nodiscard]] shards::Provider provider_of(std::size_t node) const;
  [[nodiscard]] repair::Options options_of(std::size_t node) const;
  void learn(std::size_t who, std::size_t whom);
  void tell_all(std::size_t node, const std::function<void(std::size_t)>& change);
  void rearm(std::size_t node);
  void tick(std::size_t node);
  void take(std::size_t node, const repair::Action& action);
  void begin_fetch(std::size_t node, const repair::FetchExpert& fetch);
  void end_fetch(std::size_t node, const repair::FetchExpert& fetch, std::uint64_t number);
  void admit(std::size_t node, Slot slot);
  void check_lost();

  Setup setup_;
  Prng prng_;
  std::vector<Node> nodes_;
  Instant now_;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> queue_;
  std::uint64_t events_ = 0;
  std::uint64_t fetch_numbers_ = 0;
  Watched watched_;
};

}  // namespace tenzro::testing
