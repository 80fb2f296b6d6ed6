#include <algorithm>
#include <set>

#include "tenzro/base/bytes.hpp"
#include "tenzro/node/node.hpp"

#include "presence.hpp"

namespace tenzro::node {
namespace {

rpc::Holder to_answer(const shards::Candidate& candidate) {
  return {.provider = candidate.provider->address,
          .residency = candidate.holding->is_warm ? rpc::Residency::warm : rpc::Residency::cold,
          .committed_tps = candidate.provider->committed_tps,
          .iroh_endpoint_id = candidate.provider->endpoint_id,
          .http_endpoint = candidate.provider->http_endpoint,
          .blob_uri = candidate.holding->blob_uri};
}

rpc::ExpertSlot to_slot(shards::View::Slot slot) {
  return {slot.first, slot.second};
}

std::uint64_t percentile(std::vector<std::uint64_t> values, unsigned percent) {
  if (values.empty()) return 0;
  const std::size_t at = (values.size() - 1) * percent / 100;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace

Result<rpc::Answer> Node::shard_map(Instant now, const rpc::ShardMapCall& call) {
  view_.set_rate(about_.provider, meter_.rate(now));
  if (presence_ != nullptr) presence_->want_model(now, call.model);
  using shards::Role;
  rpc::ShardMapAnswer answer{.model_id = call.model,
                             .expert_holders_role_count = view_.count_role(Role::expert_holder),
                             .router_role_count = view_.count_role(Role::router),
                             .prefill_role_count = view_.count_role(Role::prefill),
                             .decode_role_count = view_.count_role(Role::decode),
                             .replica_role_count = view_.count_role(Role::replica),
                             .policy = options_.policy};
  std::set<ProviderAddress> providers;
  for (const auto& [slot, candidates] : view_.model(call.model)) {
    rpc::HeldExpert held{.slot = to_slot(slot)};
    std::uint32_t rate = 0;
    for (const shards::Candidate& candidate : candidates) {
      providers.insert(candidate.provider->address);
      rate = std::max(rate, candidate.provider->committed_tps);
      held.holders.push_back(to_answer(candidate));
    }
    if (candidates.size() < options_.policy.min_replication) {
      answer.under_replicated_experts.push_back(held.slot);
    }
    if (rate >= options_.policy.hot_threshold_tps) answer.hot_experts.push_back(held.slot);
    answer.holders.push_back(std::move(held));
  }
  answer.covered_experts = static_cast<std::uint32_t>(answer.holders.size());
  answer.distinct_providers = static_cast<std::uint32_t>(providers.size());
  return answer;
}

Result<rpc::Answer> Node::plan_dispatch(Instant now, const rpc::PlanDispatchCall& call) {
  view_.set_rate(about_.provider, meter_.rate(now));
  if (call.routings.empty()) {
    return fail(ErrorCode::infrastructure, "", "moe dispatch planner: token routing list is empty");
  }
  std::vector<planner::TokenExperts> wanted;
  wanted.reserve(call.routings.size());
  for (const rpc::TokenRouting& routing : call.routings) {
    planner::TokenExperts token{.token_index = routing.token_index};
    for (const rpc::ExpertSlot& slot : routing.experts)
      token.experts.emplace_back(slot.layer, slot.expert);
    wanted.push_back(std::move(token));
  }
  // Neither this node's own standing nor its experience: any node with this view answers the same.
  const planner::Plan plan =
      planner::make_plan(call.model, wanted, view_,
                         {.self = about_.provider,
                          .prefers_self = false,
                          .allow_cold = call.allow_cold,
                          .hot_threshold_tps = options_.policy.hot_threshold_tps});
  if (!plan.unreachable.empty()) {
    return fail(
        ErrorCode::infrastructure, "",
        "moe dispatch planner: " + planner::unreachable_text(plan.unreachable.front().slot));
  }
  rpc::PlanDispatchAnswer answer{.model_id = call.model};
  std::map<shards::View::Slot, ProviderAddress> chosen;
  for (const planner::Batch& batch : plan.batches) {
    const shards::Provider& provider = view_.providers().at(batch.provider());
    answer.batches.push_back({to_slot(batch.slot), batch.provider(), provider.endpoint_id,
                              provider.http_endpoint, batch.tokens});
    chosen.emplace(batch.slot, batch.provider());
  }
  for (const planner::TokenExperts& token : wanted) {
    rpc::TokenAssignment assignment{.token_index = token.token_index};
    for (const shards::View::Slot& slot : token.experts) {
      assignment.slots.emplace_back(to_slot(slot), chosen.at(slot));
    }
    answer.token_assignments.push_back(std::move(assignment));
  }
  return answer;
}

Result<rpc::Answer> Node::catalog_shape(const rpc::CatalogShapeCall& call) const {
  const catalog::Model* model = catalog_.find(call.model);
  if (model == nullptr) {
    return fail(ErrorCode::invalid_params, "", "unknown model_id: " + echo(call.model));
  }
  rpc::CatalogShapeAnswer answer{.model_id = call.model, .architecture = model->architecture};
  if (model->moe) {
    answer.moe = rpc::CatalogShapeAnswer::Shape{
        .num_experts = model->moe->num_experts,
        .experts_per_token = model->moe->experts_per_token,
        .shared_experts = model->moe->shared_experts,
        .params_per_expert_x10 = model->moe->params_per_expert_x10,
    };
  }
  return answer;
}

Result<rpc::Answer> Node::model_metadata(const rpc::ModelMetadataCall& call) const {
  const catalog::Model* model = catalog_.find(call.model);
  if (model == nullptr) {
    return fail(ErrorCode::invalid_params, "", "unknown model_id: " + echo(call.model));
  }
  return rpc::ModelMetadataAnswer{catalog::to_json(*model)};
}

rpc::ExpertRow Node::expert_row(const holder::Holder::ExpertView& view) const {
  const work::ExpertFacts& facts = view.row->facts;
  return {.key = view.key,
          .d_model = facts.d_model,
          .d_ff = facts.d_ff,
          .approx_bytes = facts.resident_bytes,
          .tier = view.in_memory ? rpc::Tier::memory : rpc::Tier::disk,
          .quant = facts.coarsest_quant(),
          .source_uri = view.row->source_uri,
          .gate_type = facts.gate_type,
          .up_type = facts.up_type,
          .down_type = facts.down_type};
}

rpc::GateRow Node::gate_row(const work::HoldingRow& row) const {
  return {.key = row.layer,
          .num_experts = row.gate_experts,
          .d_model = row.gate_d_model,
          .approx_bytes = row.gate_bytes};
}

Result<rpc::Answer> Node::expert_status(Instant now) const {
  const holder::Counters& counters = holder_.counters();
  rpc::ExpertStatusAnswer answer{
      .total_bytes = counters.memory_bytes + counters.gate_bytes,
      .memory_bytes = counters.memory_bytes,
      .memory_budget_bytes = holder_.memory_budget_bytes(),
      .memory_experts = counters.memory_experts,
      .disk_experts = counters.disk_experts,
      .compute_backend = about_.compute_backend,
      .gpu = about_.has_gpu,
      .evicted_to_disk = counters.evicted_to_disk,
      .admissions_over_budget = counters.admissions_over_budget,
      .measured_tps = meter_.rate(now),
      .memory_hits = counters.hits,
      .memory_misses = counters.misses,
      .promoted_to_memory = counters.promoted_wanted + counters.promoted_idle};
  for (const auto& view : holder_.experts()) answer.experts.push_back(expert_row(view));
  for (const work::HoldingRow* row : holder_.gates()) answer.gates.push_back(gate_row(*row));
  return answer;
}

Result<rpc::Answer> Node::node_status(Instant now) const {
  const holder::Counters& counters = holder_.counters();
  const auto uptime = std::chrono::duration_cast<std::chrono::seconds>(now - started_);
  return rpc::NodeStatusAnswer{
      .version = about_.version,
      .name = about_.name,
      .endpoint_id = about_.endpoint_id,
      .provider = about_.provider,
      .rpc_address = about_.rpc_address,
      .quic_address = about_.quic_address,
      .uptime_s = static_cast<std::uint64_t>(uptime.count()),
      .peers = static_cast<std::uint32_t>(view_.providers().size() - 1),
      .memory_bytes = counters.memory_bytes,
      .memory_budget_bytes = holder_.memory_budget_bytes(),
      .experts = counters.memory_experts + counters.disk_experts,
      .gates = holder_.gates().size(),
      .queue_depth = requests_.size(),
      .queue_max = options_.requests_max,
      .compute_backend = about_.compute_backend,
      .profile = std::string(compute::name_of(options_.profile)),
      .threads = about_.threads,
      .draining = is_draining_,
      .forwards = totals_.forwards,
      .forward_p50_us = percentile(forward_us_, 50),
      .forward_p99_us = percentile(forward_us_, 99),
      .memory_experts = counters.memory_experts,
      .memory_hits = counters.hits,
      .memory_misses = counters.misses,
      .promoted_to_memory = counters.promoted_wanted + counters.promoted_idle,
      .evicted_to_disk = counters.evicted_to_disk,
      .measured_tps = meter_.rate(now),
      .expert_jobs = service_.jobs(),
      .row_time_ns = service_.row_time_ns(now)};
}

}  // namespace tenzro::node
