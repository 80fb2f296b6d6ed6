// Node: copies that the mesh lacks, fetched here; copies that are too many, given up.
#include "repairs.hpp"

#include <algorithm>
#include <bit>

#include "tenzro/wire/uri.hpp"

#include "presence.hpp"

namespace tenzro::node {
namespace {

constexpr std::uint64_t kBudgetsHeld = 4;
constexpr Duration kGraceIntervals{5};

/// Three digits of binary: what is told changes seldom.
std::uint64_t round_down(std::uint64_t bytes) {
  const auto digits = static_cast<int>(std::bit_width(bytes));
  return digits <= 3 ? bytes : bytes >> (digits - 3) << (digits - 3);
}

repair::Options repair_options(const Options& options, const ProviderAddress& self) {
  const RepairOptions& repair = options.repair;
  repair::Options made{.self = self,
                       .interval = repair.interval,
                       .grace = repair.grace,
                       .max_admissions = repair.max_admissions,
                       .bytes_per_s = repair.bytes_per_s,
                       .drops_surplus = repair.drops_surplus,
                       .models = repair.models};
  if (made.grace == Duration{0}) made.grace = made.interval * kGraceIntervals.count();
  made.policy = {options.policy.min_replication, options.policy.max_replication,
                 options.policy.hot_threshold_tps};
  return made;
}

}  // namespace

Repairs::Repairs(const Options& options, const ProviderAddress& self)
    : core(repair_options(options, self)) {}

bool Repairs::is_letting_go_of(const BlobHash& blob) const {
  return std::any_of(drops.begin(), drops.end(),
                     [&](const auto& entry) { return entry.second.blob() == blob; }) ||
         std::any_of(unloads.begin(), unloads.end(),
                     [&](const auto& entry) { return entry.second == blob; });
}

const repair::Repair& Node::repair() const {
  return repairs_->core;
}

void Node::start_repairs(Instant now) {
  if (!is_draining_) repairs_->core.start(now);
}

void Node::set_disk_free(std::uint64_t bytes) {
  repairs_->disk_free = bytes;
  if (announced_room(held_bytes()) != repairs_->announced && !facts_due_) facts_due_ = facts_made_;
}

std::uint64_t Node::held_bytes() {
  if (!repairs_->held_bytes) {
    std::uint64_t bytes = 0;
    for (const auto& view : holder_.experts()) bytes += view.row->facts.resident_bytes;
    repairs_->held_bytes = bytes;
  }
  return *repairs_->held_bytes;
}

repair::Room Node::repair_room(Instant now) {
  const std::uint64_t most = options_.repair.held_bytes_max != 0
                                 ? options_.repair.held_bytes_max
                                 : holder_.memory_budget_bytes() * kBudgetsHeld;
  const std::uint64_t held = held_bytes();
  const std::uint64_t left = most - std::min(most, held);
  return {
      .free_bytes = std::min(left, repairs_->disk_free.value_or(0)),
      .is_busy = requests_.size() + peer_requests_.size() > options_.requests_max / 2,
      .doubts_view = presence_ != nullptr && presence_->gossip().membership().suspects_itself(now),
      .last_use = [this](const ExpertKey& key) { return holder_.last_use(key); }};
}

/// What is told stays until it was too much, or much too little. Why: a record is made for each
/// change of it.
std::optional<std::uint64_t> Node::announced_room(std::uint64_t held_bytes) {
  const RepairOptions& repair = options_.repair;
  if (!repairs_->disk_free || is_draining_ ||
      (repair.max_admissions == 0 && repair.bytes_per_s == 0))
    return std::nullopt;
  repairs_->held_bytes = held_bytes;
  const std::uint64_t room = repair_room(facts_made_).free_bytes;
  const std::uint64_t told = repairs_->announced.value_or(0);
  const bool is_near = told != 0 && told <= room && room < told + told / 2;
  return is_near ? told : round_down(room);
}

/// The node's own row of the view says what its record says: others judge it by that.
void Node::announce_room(const wire::ProviderRecord& facts) {
  repairs_->announced = facts.repair_free_bytes;
  shards::Provider self = view_.providers().at(about_.provider);
  self.repair_free_bytes = facts.repair_free_bytes;
  self.repair_models = facts.repair_models;
  self.expert_bytes = facts.expert_bytes;
  view_.set_provider(self);
}

void Node::hear_of_peers(Instant now) {
  if (presence_ == nullptr) return;
  for (Presence::Departed& gone : presence_->take_departed()) {
    peer_left_at_ = now;
    repairs_->core.on_gone(now, gone.address, std::move(gone.held));
  }
  for (const ProviderAddress& address : presence_->take_leaving())
    repairs_->core.on_leaving(now, address);
}

std::optional<Instant> Node::next_repair_deadline() const {
  std::optional<Instant> earliest = repairs_->core.next_deadline();
  for (const auto& [request, proof] : repairs_->drops) {
    if (!earliest || proof.until() < *earliest) earliest = proof.until();
  }
  return earliest;
}

void Node::tick_repairs(Instant now, Outbox& out) {
  hear_of_peers(now);  // before a pass: who has just left the view must count as absent
  std::vector<RequestId> late;
  for (auto& [request, proof] : repairs_->drops) {
    proof.on_tick(now);
    if (proof.state() == CopyProof::State::failed) late.push_back(request);
  }
  for (const RequestId request : late) advance_drop(request, out);
  const auto due = repairs_->core.next_deadline();
  if (!due || now < *due) return;
  view_.set_rate(about_.provider, meter_.rate(now));
  const std::set<ModelId>& wanted = options_.repair.models;
  if (wanted.contains("*")) {
    for (const ModelId& model : view_.models()) presence_->want_model(now, model);
  }
  for (const ModelId& model : wanted) presence_->want_model(now, model);
  if (is_draining_) return stop_repairs(now, out);
  repair::Outbox actions;
  repairs_->core.on_tick(now, view_, repair_room(now), actions);
  for (repair::Action& action : actions) take_repair(now, action, out);
}

void Node::stop_repairs(Instant now, Outbox& out) {
  repair::Outbox actions;
  repairs_->core.stop(actions);
  for (repair::Action& action : actions) take_repair(now, action, out);
}

RequestId Node::begin_own_request() {
  const RequestId request{kOwnRequestBit | ++repairs_->last_request};
  requests_.emplace(request, CoreWait{});
  return request;
}

void Node::take_repair(Instant now, repair::Action& action, Outbox& out) {
  if (auto* fetch = std::get_if<repair::FetchExpert>(&action)) {
    const RequestId request = begin_own_request();
    repairs_->loads.emplace(request, fetch->key);
    repairs_->requests.insert_or_assign(fetch->key, request);
    BlobSearch search{.hash = fetch->blob, .expert = fetch->key, .bytes_max = fetch->bytes_max};
    requests_.at(request) = UriLoad{{fetch->key.model, fetch->key.layer},
                                    fetch->key.expert,
                                    wire::format_blob_uri(fetch->blob),
                                    std::move(search)};
    find_load(request, out);
  } else if (const auto* cancel = std::get_if<repair::CancelFetch>(&action)) {
    const auto request = repairs_->requests.extract(cancel->key);
    if (!request) return;
    repairs_->loads.erase(request.mapped());
    drop_request(now, request.mapped(), out);
  } else {
    begin_drop(now, std::get<repair::DropExpert>(action), out);
  }
}

bool Node::is_still_wanted(RequestId request) const {
  const auto load = repairs_->loads.find(request);
  return load == repairs_->loads.end() || repairs_->core.wants(view_, load->second);
}

void Node::on_own_answers(Instant now, Outbox& out) {
  for (auto& [request, answer] : std::exchange(repairs_->answers, {})) {
    const auto load = repairs_->loads.extract(request);
    if (!load) {  // a copy was given up
      repairs_->unloads.erase(request);
      continue;
    }
    repairs_->requests.erase(load.mapped());
    if (answer) {
      repairs_->core.on_fetched(now, load.mapped(), std::get<rpc::ExpertRow>(*answer).approx_bytes);
      continue;
    }
    repairs_->core.on_fetched(now, load.mapped(), fail(answer.error()));
    if (answer.error().code == ErrorCode::cancelled) continue;
    out.emplace_back(Notice{
        "repair of expert " + load.mapped().model + " l" + std::to_string(load.mapped().layer) +
        "/e" + std::to_string(load.mapped().expert) + " failed: " + answer.error().message()});
  }
}

void Node::begin_drop(Instant now, const repair::DropExpert& drop, Outbox& out) {
  const bool is_begun =
      std::any_of(repairs_->drops.begin(), repairs_->drops.end(),
                  [&](const auto& entry) { return entry.second.key() == drop.key; });
  if (is_begun) return;
  std::vector<work::PeerTarget> others;
  for (const ProviderAddress& address : drop.others) {
    const auto provider = view_.providers().find(address);
    if (provider == view_.providers().end()) return;
    others.push_back({provider->second.endpoint_key, provider->second.addresses});
  }
  const RequestId request = begin_own_request();
  const auto [it, is_new] =
      repairs_->drops.emplace(request, CopyProof(now, drop.key, drop.blob, std::move(others)));
  const JobId id = ids_.next();
  owners_.emplace(id, request);
  out.emplace_back(Store{id, it->second.next_read()});
}

bool Node::on_drop_store(RequestId request, const work::StoreResult& result, Outbox& out) {
  const auto drop = repairs_->drops.find(request);
  if (drop == repairs_->drops.end()) return false;
  if (drop->second.on_range(result, prng_, call_ids_, out)) {
    const JobId id = ids_.next();
    owners_.emplace(id, request);
    out.emplace_back(Store{id, drop->second.next_read()});
  }
  advance_drop(request, out);
  return true;
}

void Node::advance_drop(RequestId request, Outbox& out) {
  const auto drop = repairs_->drops.find(request);
  if (drop == repairs_->drops.end() || drop->second.state() == CopyProof::State::open) return;
  const bool is_proven = drop->second.state() == CopyProof::State::proven;
  const ExpertKey key = drop->second.key();
  const BlobHash blob = drop->second.blob();
  repairs_->drops.erase(drop);
  if (!is_proven) {
    requests_.erase(request);
    return;
  }
  out.emplace_back(Notice{"expert " + key.model + " l" + std::to_string(key.layer) + "/e" +
                          std::to_string(key.expert) +
                          " is dropped here: others hold enough copies"});
  repairs_->unloads.emplace(request, blob);
  holder_.unload_expert(request, key, holder_out_);
}

bool Node::on_drop_reply(PeerCallId call, const work::CallResult& result, Outbox& out) {
  for (auto& [request, proof] : repairs_->drops) {
    if (!proof.on_reply(call, result)) continue;
    advance_drop(request, out);
    return true;
  }
  return false;
}

}  // namespace tenzro::node
