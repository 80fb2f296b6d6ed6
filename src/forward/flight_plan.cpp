#include <algorithm>

#include "tenzro/base/assert.hpp"
#include "tenzro/forward/flight.hpp"

namespace tenzro::forward {
namespace {

bool is_quantized(const std::optional<shards::WeightTypes>& types) {
  if (!types) return false;
  const work::ExpertFacts facts{
      .gate_type = types->gate, .up_type = types->up, .down_type = types->down};
  return facts.is_quantized();
}

}  // namespace

planner::Plan Flight::make_plan(Instant now,
                                const std::vector<planner::TokenExperts>& wanted) const {
  return planner::make_plan(request_.layer.model, wanted, mesh_.view,
                            {.self = mesh_.self,
                             .allow_cold = request_.allow_cold,
                             .profile = request_.profile,
                             .request = request_.number,
                             .standings = &mesh_.standings,
                             .now = now,
                             .hot_threshold_tps = mesh_.limits.hot_threshold_tps,
                             .excluded = excluded_});
}

void Flight::plan(Instant now, Outbox& out) {
  std::vector<planner::TokenExperts> wanted(routed_.tokens);
  for (std::uint32_t t = 0; t < routed_.tokens; ++t) {
    wanted[t].token_index = t;
    for (const routing::Slot& slot : routed_.token(t)) {
      wanted[t].experts.emplace_back(request_.layer.layer, slot.expert);
    }
  }
  const planner::Plan plan = make_plan(now, wanted);
  std::vector<PartIndex> placed;
  for (const planner::Batch& batch : plan.batches) {
    for (Part& part : split(batch, width_of(batch.slot.second))) {
      placed.push_back(parts_.size());
      parts_.push_back(std::move(part));
    }
  }
  tally_.batches = static_cast<std::uint32_t>(placed.size());
  for (const planner::Batch& gap : plan.unreachable)
    parts_.push_back({.expert = gap.slot.second, .rows = gap.tokens});
  open_parts_ = parts_.size();
  is_q8_ = chooses_q8(plan);
  for (PartIndex i = placed.size(); i < parts_.size(); ++i) give_up(now, parts_[i], out);
  place(now, std::move(placed), out);
  if (open_parts_ == 0) advance(out);
}

bool Flight::chooses_q8(const planner::Plan& plan) const {
  // Asked for or not: rows that Q8_0 cannot carry travel dense.
  if (request_.carrier == Carrier::dense || !can_be_q8_) return false;
  if (request_.carrier == Carrier::q8) return true;
  return std::all_of(plan.batches.begin(), plan.batches.end(), [&](const planner::Batch& batch) {
    if (batch.provider() != mesh_.self) return is_quantized(batch.holders.front().types);
    const work::ExpertFacts* known =
        mesh_.facts.find({request_.layer.model, batch.slot.first, batch.slot.second});
    return known != nullptr && known->is_quantized();
  });
}

void Flight::place(Instant now, std::vector<PartIndex> wanted, Outbox& out) {
  // Ends: a part that comes round again has spent one of its replans.
  while (!wanted.empty() && phase_ == Phase::running) {
    const std::vector<PartIndex> exhausted = ask(now, wanted, out);
    wanted = replan(now, exhausted, out);
  }
}

std::vector<PartIndex> Flight::ask(Instant now, const std::vector<PartIndex>& wanted, Outbox& out) {
  using Key = std::pair<ProviderAddress, bool>;
  std::map<Key, std::vector<PartIndex>> remote;  // ordered: reaches the outbox
  std::vector<ExpertIndex> local;
  std::vector<PartIndex> exhausted;
  for (const PartIndex i : wanted) {
    Part& part = parts_[i];
    const planner::Holder* holder = next_holder(now, part);
    if (holder == nullptr) {
      exhausted.push_back(i);
    } else if (holder->provider == mesh_.self) {
      part.state = PartState::local;
      ++part.live;
      if (local.empty() || local.back() != part.expert) local.push_back(part.expert);
    } else {
      part.state = PartState::remote;
      remote[{holder->provider, reads_hidden(part.expert)}].push_back(i);
    }
  }
  for (const auto& [key, carried] : remote) call(now, key.first, carried, out);
  if (!local.empty()) out.emplace_back(Acquire{std::move(local)});
  return exhausted;
}

bool Flight::can_ask(Instant now, const ProviderAddress& provider) const {
  if (excluded_.contains(provider)) return false;
  // Others may have left or stalled since it was planned.
  return provider == mesh_.self ||
         (mesh_.view.providers().contains(provider) && !mesh_.standings.is_stalled(now, provider));
}

const planner::Holder* Flight::next_holder(Instant now, Part& part) const {
  const auto rest = part.holders.begin() + static_cast<std::ptrdiff_t>(part.next);
  std::stable_partition(rest, part.holders.end(), [&](const planner::Holder& holder) {
    return can_ask(now, holder.provider);
  });
  while (part.next < part.holders.size()) {
    const planner::Holder& holder = part.holders[part.next++];
    if (excluded_.contains(holder.provider)) continue;
    if (holder.provider == mesh_.self) return &holder;
    if (!mesh_.view.providers().contains(holder.provider)) continue;
    if (mesh_.standings.is_busy(now, holder.provider)) {
      part.met_busy = true;
      continue;
    }
    return &holder;
  }
  return nullptr;
}

void Flight::readmit_over_http(const Part& part) {
  for (const planner::Holder& holder : part.holders) {
    if (quic_lost_.erase(holder.provider) == 0) continue;
    const auto known = mesh_.view.providers().find(holder.provider);
    if (known == mesh_.view.providers().end() || !known->second.http_endpoint) continue;
    over_http_.insert(holder.provider);
    excluded_.erase(holder.provider);
  }
}

std::vector<PartIndex> Flight::replan(Instant now, const std::vector<PartIndex>& exhausted,
                                      Outbox& out) {
  std::vector<PartIndex> again;
  for (const PartIndex i : exhausted) {
    Part& part = parts_[i];
    if (part.met_busy && part.waits < mesh_.limits.waits_max) {
      const Duration grown = mesh_.limits.wait_first * (1 << std::min(part.waits, 10U));
      const Duration wait = std::min(grown, mesh_.limits.wait_max);
      const auto jitter = static_cast<std::uint64_t>(wait.count() / 4 + 1);
      ++part.waits;
      part.state = PartState::waiting;
      part.wake = now + wait + Duration{static_cast<std::int64_t>(mesh_.prng.below(jitter))};
    } else if (part.replans < mesh_.limits.replans_max) {
      readmit_over_http(part);
      ++part.replans;
      tally_.replans = std::max(tally_.replans, part.replans);
      again.push_back(i);
    } else {
      give_up(now, part, out);
    }
  }
  return plan_again(now, again, out);
}

std::vector<PartIndex> Flight::plan_again(Instant now, const std::vector<PartIndex>& wanted,
                                          Outbox& out) {
  std::vector<planner::TokenExperts> routing;
  for (const PartIndex i : wanted) {
    for (const std::uint32_t row : parts_[i].rows)
      routing.push_back({row, {{request_.layer.layer, parts_[i].expert}}});
  }
  const planner::Plan plan = make_plan(now, routing);
  std::map<ExpertIndex, const planner::Batch*> batches;
  for (const planner::Batch& batch : plan.batches) batches.emplace(batch.slot.second, &batch);
  std::vector<PartIndex> planned;
  for (const PartIndex i : wanted) {
    Part& part = parts_[i];
    const auto batch = batches.find(part.expert);
    if (batch == batches.end()) {
      give_up(now, part, out);
      continue;
    }
    part.holders = batch->second->holders;
    part.next = 0;
    part.met_busy = false;
    ++tally_.batches;
    planned.push_back(i);
  }
  return planned;
}

void Flight::give_up(Instant now, Part& part, Outbox& out) {
  if (request_.allow_partial && !is_shared(part.expert)) {
    part.state = PartState::missing;
    --open_parts_;
    return;
  }
  const planner::View::Slot slot{request_.layer.layer, part.expert};
  const Error unreachable{ErrorCode::infrastructure, "",
                          "moe dispatch planner: " + planner::unreachable_text(slot)};
  finish(now, fail(part.last_error.value_or(unreachable)), out);
}

}  // namespace tenzro::forward
