#pragma once
/// \file
/// A shard view made by hand: numbered providers of one model.
#include <algorithm>
#include <functional>
#include <string>

#include "tenzro/repair/repair.hpp"
#include "tenzro/shards/view.hpp"

namespace tenzro::repair {

inline ProviderAddress address(std::uint8_t number) {
  ProviderAddress address{};
  address.fill(number);
  return address;
}

inline BlobHash blob(std::uint8_t number) {
  BlobHash hash{};
  hash.fill(number);
  return hash;
}

struct MeshView {
  shards::View view{shards::Options{}};

  /// Takes copies, and has room.
  shards::Provider& add(std::uint8_t number) {
    staged = {.address = address(number), .repair_free_bytes = 1'000'000};
    staged.expert_bytes = {{"m", 10}, {"other", 10}};
    return staged;
  }

  void set() { view.set_provider(staged); }

  void add_all(std::uint8_t count) {
    for (std::uint8_t i = 1; i <= count; ++i) {
      add(i);
      set();
    }
  }

  void change(std::uint8_t number, const std::function<void(shards::Provider&)>& how) {
    shards::Provider provider = view.providers().at(address(number));
    how(provider);
    view.set_provider(provider);
  }

  void change_all(const std::function<void(shards::Provider&)>& how) {
    const auto providers = view.providers();
    for (const auto& [key, provider] : providers) change(key[0], how);
  }

  void hold(std::uint8_t number, ExpertIndex expert, bool is_warm = true, std::uint8_t bytes = 9) {
    view.declare(address(number), {"m", 0, expert},
                 {.is_warm = is_warm, .blob_uri = "tenzro://blob/x", .blob = blob(bytes)});
  }

  shards::Provider staged;
};

/// Ticks a core until it has nothing due, and gathers what it wants done.
inline Outbox run_until(Repair& core, const shards::View& view, Instant end, const Room& room) {
  Outbox all;
  Instant now;
  while (const auto due = core.next_deadline()) {
    if (*due > end) break;
    Outbox out;
    now = std::max(now, *due);
    core.on_tick(now, view, room, out);
    for (Action& action : out) all.push_back(std::move(action));
  }
  return all;
}

}  // namespace tenzro::repair
