#include "sim/sim_node.hpp"

#include <algorithm>

#include "tenzro/node/run_job.hpp"

namespace tenzro::testing {
namespace {

constexpr Duration kStoreLatency = std::chrono::milliseconds(1);
constexpr Duration kJobCost = std::chrono::microseconds(30);
constexpr Duration kRowCost = std::chrono::microseconds(20);

/// What a job costs on a healthy node: a fixed part, and one a (row, expert).
Duration cost_of(const work::Job& job) {
  std::uint64_t rows = 0;
  if (const auto* run = std::get_if<work::RunExperts>(&job)) {
    for (const auto& batch : run->batches) rows += batch.rows.size();
  }
  return kJobCost + kRowCost * rows;
}

crypto::Seed seed_of(std::uint64_t seed, std::size_t index) {
  Prng prng(seed * 1'000'003 + index);
  crypto::Seed bytes{};
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(prng.below(256));
  return bytes;
}

}  // namespace

SimNode::SimNode(const Setup& setup, Effects& effects)
    : setup_(setup),
      effects_(effects),
      key_(crypto::KeyPair::from_seed(seed_of(setup.seed, setup.index))),
      prng_(setup.seed * 7'919 + setup.index) {}

void SimNode::start() {
  const node::About about{.version = "sim",
                          .name = "node-" + std::to_string(setup_.index),
                          .endpoint_id = key_.public_key(),
                          .provider = key_.address(),
                          .quic_address = setup_.address,
                          .compute_backend = std::string(setup_.backend->name())};
  node_ = std::make_unique<node::Node>(setup_.options, about, *setup_.catalog, prng_);
  workers_free_at_.clear();
  deliver([&](node::Node& node, node::Outbox& out) {
    tell_disk();
    node.on_index(effects_.now(), store_.rows(), out);
    node.set_addresses("", "", setup_.address, {setup_.address});
    node.join_mesh(effects_.now(), wall_ms(), signing_, out);
  });
}

std::uint64_t SimNode::wall_ms() const {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(effects_.now().since_start);
  return kWallOriginMs + static_cast<std::uint64_t>((since + clock_ahead_).count());
}

void SimNode::set_clock(std::chrono::milliseconds ahead) {
  clock_ahead_ = ahead;
  if (is_up()) node_->set_wall(effects_.now(), wall_ms());
}

std::uint64_t SimNode::stored_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [hash, blob] : store_.blobs()) bytes += blob.size();
  return bytes;
}

void SimNode::tell_disk() {
  if (setup_.disk_bytes == 0) return;
  const std::uint64_t stored = stored_bytes();
  node_->set_disk_free(setup_.disk_bytes - std::min(setup_.disk_bytes, stored));
}

void SimNode::crash() {
  armed_for_.reset();
  node_.reset();
}

void SimNode::deliver(const std::function<void(node::Node&, node::Outbox&)>& event) {
  if (!is_up()) return;
  node::Outbox out;
  event(*node_, out);
  take(std::move(out));
  rearm();
}

void SimNode::take(node::Outbox actions) {
  for (node::Action& action : actions) {
    if (auto* reply = std::get_if<node::Reply>(&action)) {
      effects_.on_answer(setup_.index, reply->request, std::move(reply->answer));
    } else if (auto* job = std::get_if<node::Run>(&action)) {
      run(std::move(*job));
    } else if (auto* operation = std::get_if<node::Store>(&action)) {
      operate(std::move(*operation));
    } else if (auto* notice = std::get_if<node::Notice>(&action)) {
      notices_.push_back(std::move(notice->text));
    } else {
      effects_.on_peer_action(setup_.index, std::move(action));
    }
  }
}

void SimNode::run(node::Run run) {
  workers_free_at_.resize(workers, effects_.now());
  Instant& free_at = *std::min_element(workers_free_at_.begin(), workers_free_at_.end());
  const Instant begin = std::max(effects_.now(), free_at);
  Duration cost = cost_of(run.job);
  if (std::holds_alternative<work::AdmitExpert>(run.job)) cost += admit_cost;
  free_at = begin + cost * slowness_percent / 100;
  effects_.after(setup_.index, free_at - effects_.now(), [this, run = std::move(run)]() mutable {
    work::JobResult result = node::run_job(run.job, {*setup_.backend, executor_, key_});
    if (corrupt_job) corrupt_job(run.job, result);
    deliver([&](node::Node& node, node::Outbox& out) {
      node.on_job_done(effects_.now(), run.id, result, out);
    });
  });
}

void SimNode::operate(node::Store store) {
  effects_.after(setup_.index, kStoreLatency, [this, store = std::move(store)] {
    work::StoreResult result = fail(ErrorCode::io, "", "");
    Status allowed;
    if (store_fault) allowed = store_fault(store.op);
    if (allowed) {
      result = store_.run(store.op);
    } else {
      result = fail(allowed.error());
    }
    deliver([&](node::Node& node, node::Outbox& out) {
      node.on_store_done(effects_.now(), store.id, result, out);
    });
  });
}

void SimNode::rearm() {
  const auto deadline = node_->next_deadline();
  if (deadline == armed_for_) return;
  armed_for_ = deadline;
  const std::uint64_t generation = ++tick_generation_;
  if (!deadline) return;
  const Duration wait = std::max(Duration{0}, *deadline - effects_.now());
  effects_.after(setup_.index, wait, [this, generation] {
    if (generation != tick_generation_) return;  // re-armed since
    armed_for_.reset();
    tell_disk();
    deliver([&](node::Node& node, node::Outbox& out) { node.on_tick(effects_.now(), out); });
  });
}

}  // namespace tenzro::testing
