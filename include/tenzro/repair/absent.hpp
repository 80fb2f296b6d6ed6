#pragma once
/// \file
/// Absent: providers that went, and what they held, for as long as they may come back.
///
/// Rules
///  - From the moment a provider leaves the view until `grace` later its copies count as copies.
///  Why: a restart, even of half the mesh, must move no data.
///  - It may come back meanwhile and declare its experts one after another: what it has not
///  declared yet still counts.
///  - Who goes again before that time is over gets no longer time by it. Why: a node that comes and
///  goes for ever would hide the loss of its experts for ever.
/// Bounds: `kProvidersMax` providers, `kHoldingsMax` holdings of all of them; of those that do not
/// fit the one that was known for the shortest time is taken for lost, of equal ones the last to
/// go. Why: who comes and goes under many names must not push out those that restart. Thread: the
/// owner's only. Pure.
#include <cstddef>
#include <map>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/shards/view.hpp"

namespace tenzro::repair {

class Absent {
 public:
  static constexpr std::size_t kProvidersMax = 256;
  static constexpr std::size_t kHoldingsMax = 2'000'000;

  explicit Absent(Duration grace) : grace_(grace) {}

  /// `known_since`: when it was first heard of.
  void on_gone(Instant now, const ProviderAddress& address, shards::View::Held held,
               Instant known_since);
  /// Forgets those whose time is over.
  void on_tick(Instant now);

  /// Who held experts of a model, and which.
  struct Holder {
    ProviderAddress address{};
    const std::set<shards::View::Slot>* slots = nullptr;
  };

  [[nodiscard]] std::vector<Holder> holders_of(const ModelId& model) const;

  [[nodiscard]] std::size_t size() const { return providers_.size(); }

 private:
  struct Entry {
    Instant known_since;
    Instant until;
    shards::View::Held held;
    std::size_t holdings = 0;
  };

  void drop_least_known();

  Duration grace_;
  std::map<ProviderAddress, Entry> providers_;
  std::size_t holdings_ = 0;
};

}  // namespace tenzro::repair
