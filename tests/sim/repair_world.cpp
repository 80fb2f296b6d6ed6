#include "sim/repair_world.hpp"

#include <algorithm>

namespace tenzro::testing {
namespace {

constexpr const char* kModel = "model";

ExpertKey key_of(RepairWorld::Slot slot) {
  return {kModel, slot.first, slot.second};
}

shards::Holding holding_of(RepairWorld::Slot slot) {
  shards::Holding holding{.blob_uri = "u"};
  holding.blob[0] = 1;
  holding.blob[1] = static_cast<std::uint8_t>(slot.first);
  holding.blob[2] = static_cast<std::uint8_t>(slot.second);
  holding.blob[3] = static_cast<std::uint8_t>(slot.second >> 8U);
  return holding;
}

}  // namespace

RepairWorld::RepairWorld(const Setup& setup)
    : setup_(setup), prng_(setup.seed), nodes_(setup.nodes) {
  if (setup_.holders == 0) setup_.holders = setup_.nodes;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (std::uint8_t& byte : nodes_[i].address) byte = static_cast<std::uint8_t>(prng_.below(256));
  }
  for (LayerIndex layer = 0; layer < setup_.layers; ++layer) {
    for (ExpertIndex expert = 0; expert < setup_.experts; ++expert) {
      std::set<std::size_t> holders;
      while (holders.size() < std::min(setup_.replication, setup_.holders))
        holders.insert(prng_.below(setup_.holders));
      for (const std::size_t holder : holders) nodes_[holder].held.insert({layer, expert});
    }
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    nodes_[i].budget = held_bytes(i) + setup_.spare_bytes;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].view = std::make_unique<shards::View>(shards::Options{});
    for (std::size_t j = 0; j < nodes_.size(); ++j) learn(i, j);
    nodes_[i].core = std::make_unique<repair::Repair>(options_of(i));
    nodes_[i].core->start(now_);
    rearm(i);
  }
}

repair::Options RepairWorld::options_of(std::size_t node) const {
  repair::Options options = setup_.repair;
  options.self = nodes_[node].address;
  if (setup_.tune) setup_.tune(node, options);
  return options;
}

shards::Provider RepairWorld::provider_of(std::size_t node) const {
  const Node& who = nodes_[node];
  shards::Provider provider{.address = who.address};
  provider.is_draining = who.is_draining;
  if (!who.is_draining)
    provider.repair_free_bytes = who.budget - std::min(who.budget, held_bytes(node));
  provider.repair_models = options_of(node).models;
  provider.expert_bytes[kModel] = setup_.expert_bytes;
  return provider;
}

/// `who` hears all that `whom` says of itself.
void RepairWorld::learn(std::size_t who, std::size_t whom) {
  shards::View& view = *nodes_[who].view;
  view.set_provider(provider_of(whom));
  for (const Slot& slot : nodes_[whom].held)
    view.declare(nodes_[whom].address, key_of(slot), holding_of(slot));
}

void RepairWorld::at(Instant time, std::function<void()> event) {
  queue_.emplace(std::pair(time, ++events_), std::move(event));
}

void RepairWorld::tell_all(std::size_t node, const std::function<void(std::size_t)>& change) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const auto news = static_cast<std::uint64_t>(setup_.news_max.count());
    const Duration delay = i == node ? Duration{0} : Duration(prng_.below(news + 1));
    at(now_ + delay, [this, i, change, life = nodes_[i].life] {
      if (!nodes_[i].is_up || nodes_[i].life != life) return;
      change(i);
      rearm(i);
    });
  }
}

void RepairWorld::rearm(std::size_t node) {
  Node& who = nodes_[node];
  const std::uint64_t alarm = ++who.alarm;
  const auto due = who.core->next_deadline();
  if (!due) return;
  at(std::max(now_, *due), [this, node, alarm] {
    if (nodes_[node].is_up && nodes_[node].alarm == alarm) tick(node);
  });
}

void RepairWorld::tick(std::size_t node) {
  Node& who = nodes_[node];
  repair::Outbox out;
  who.core->on_tick(now_, *who.view,
                    {.free_bytes = who.budget - std::min(who.budget, held_bytes(node))}, out);
  for (const repair::Action& action : out) take(node, action);
  rearm(node);
}

void RepairWorld::take(std::size_t node, const repair::Action& action) {
  Node& who = nodes_[node];
  if (const auto* fetch = std::get_if<repair::FetchExpert>(&action)) {
    begin_fetch(node, *fetch);
  } else if (const auto* cancel = std::get_if<repair::CancelFetch>(&action)) {
    who.fetching.erase(cancel->key);
  } else {
    const auto& drop = std::get<repair::DropExpert>(action);
    const Slot slot{drop.key.layer, drop.key.expert};
    who.held.erase(slot);
    ++watched_.dropped;
    tell_all(node, [this, node, slot](std::size_t i) {
      nodes_[i].view->withdraw(nodes_[node].address, key_of(slot));
      nodes_[i].view->set_provider(provider_of(node));
    });
  }
}

void RepairWorld::begin_fetch(std::size_t node, const repair::FetchExpert& fetch) {
  Node& who = nodes_[node];
  ++watched_.fetches;
  const Slot slot{fetch.key.layer, fetch.key.expert};
  std::size_t others = 0;
  std::size_t staying = 0;
  for (const Node& other : nodes_) {
    if (&other == &who || !other.is_up) continue;
    if (other.fetching.contains(fetch.key)) ++others;
    if (other.held.contains(slot) && !other.is_draining) ++staying;
  }
  const std::size_t floor = setup_.repair.policy.min_replication;
  const std::size_t there = copies(slot);
  const std::size_t needed = there < floor ? floor - there : staying == 0 ? 1 : 0;
  if (others >= needed) ++watched_.races;
  const std::uint64_t number = ++fetch_numbers_;
  who.fetching[fetch.key] = number;
  who.link_free = std::max(who.link_free, now_) +
                  Duration(static_cast<std::int64_t>(setup_.expert_bytes * 1'000'000 /
                                                     setup_.link_bytes_per_s));
  at(who.link_free, [this, node, fetch, number] { end_fetch(node, fetch, number); });
}

void RepairWorld::end_fetch(std::size_t node, const repair::FetchExpert& fetch,
                            std::uint64_t number) {
  Node& who = nodes_[node];
  const auto under_way = who.fetching.find(fetch.key);
  if (!who.is_up || under_way == who.fetching.end() || under_way->second != number) return;
  who.fetching.erase(under_way);
  const Slot slot{fetch.key.layer, fetch.key.expert};
  const bool has_source = std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& other) {
    return other.is_up && other.held.contains(slot);
  });
  if (broken.contains(node) || !has_source || !who.core->wants(*who.view, fetch.key)) {
    who.core->on_fetched(now_, fetch.key, fail(ErrorCode::io, "", "not to be had"));
  } else {
    admit(node, slot);
    who.core->on_fetched(now_, fetch.key, setup_.expert_bytes);
  }
  rearm(node);
}

void RepairWorld::admit(std::size_t node, Slot slot) {
  Node& who = nodes_[node];
  who.held.insert(slot);
  ++watched_.admitted;
  watched_.last_admission = now_.since_start;
  if (held_bytes(node) > who.budget) ++watched_.over_budget;
  const auto declare = [this, node, slot, life = who.life](std::size_t i) {
    if (nodes_[node].life != life) return;
    nodes_[i].view->set_provider(provider_of(node));
    nodes_[i].view->declare(nodes_[node].address, key_of(slot), holding_of(slot));
  };
  declare(node);
  tell_all(node, declare);
}

void RepairWorld::crash(std::size_t node) {
  Node& who = nodes_[node];
  who.is_up = false;
  ++who.life;
  who.fetching.clear();
  check_lost();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (i == node) continue;
    const auto news = static_cast<std::uint64_t>(setup_.news_max.count());
    const Duration delay = setup_.down_after + Duration(prng_.below(news + 1));
    at(now_ + delay, [this, i, node, life = who.life, own = nodes_[i].life] {
      if (nodes_[node].life != life || !nodes_[i].is_up || nodes_[i].life != own) return;
      nodes_[i].core->on_gone(now_, nodes_[node].address,
                              nodes_[i].view->remove_provider(nodes_[node].address));
      rearm(i);
    });
  }
}

void RepairWorld::come_back(std::size_t node) {
  Node& who = nodes_[node];
  who.is_up = true;
  ++who.life;
  who.view = std::make_unique<shards::View>(shards::Options{});
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].is_up) learn(node, i);
  }
  who.core = std::make_unique<repair::Repair>(options_of(node));
  who.core->start(now_);
  rearm(node);
  tell_all(node, [this, node](std::size_t i) { learn(i, node); });
}

void RepairWorld::set_draining(std::size_t node) {
  nodes_[node].is_draining = true;
  repair::Outbox out;
  nodes_[node].core->stop(out);
  for (const repair::Action& action : out) take(node, action);
  tell_all(node, [this, node](std::size_t i) {
    nodes_[i].view->set_provider(provider_of(node));
    nodes_[i].core->on_leaving(now_, nodes_[node].address);
  });
}

std::size_t RepairWorld::copies(Slot slot) const {
  return static_cast<std::size_t>(
      std::count_if(nodes_.begin(), nodes_.end(),
                    [&](const Node& node) { return node.is_up && node.held.contains(slot); }));
}

std::size_t RepairWorld::fewest_copies() const {
  std::map<Slot, std::size_t> count;
  for (const Node& node : nodes_) {
    if (!node.is_up) continue;
    for (const Slot& slot : node.held) ++count[slot];
  }
  if (count.size() < std::size_t{setup_.layers} * setup_.experts) return 0;
  return std::min_element(count.begin(), count.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->second;
}

std::size_t RepairWorld::most_copies() const {
  std::size_t most = 0;
  for (LayerIndex layer = 0; layer < setup_.layers; ++layer) {
    for (ExpertIndex expert = 0; expert < setup_.experts; ++expert)
      most = std::max(most, copies({layer, expert}));
  }
  return most;
}

void RepairWorld::check_lost() {
  if (fewest_copies() == 0) ++watched_.lost;
}

void RepairWorld::run_until(Duration time) {
  while (!queue_.empty() && queue_.begin()->first.first <= Instant{time}) {
    auto next = queue_.extract(queue_.begin());
    now_ = next.key().first;
    next.mapped()();
  }
  now_ = Instant{time};
}

bool RepairWorld::run_until_replicated(std::size_t count, Duration time) {
  for (Duration end = now_.since_start; end < time; end += std::chrono::seconds(5)) {
    run_until(end);
    if (fewest_copies() >= count) return true;
  }
  return false;
}

}  // namespace tenzro::testing
