#include "tenzro/base/bytes.hpp"

#include "answer_encoder.hpp"

namespace tenzro::rpc {
namespace {

std::string_view name_of(Residency residency) {
  return residency == Residency::warm ? "Warm" : "Cold";
}

void encode_holder(JsonWriter& out, const Holder& holder) {
  out.begin_object();
  out.member("provider", to_hex(holder.provider));
  out.member("residency", name_of(holder.residency));
  out.member("committed_tps", holder.committed_tps);
  out.nullable("iroh_endpoint_id", holder.iroh_endpoint_id);
  out.nullable("http_endpoint", holder.http_endpoint);
  out.nullable("blob_uri", holder.blob_uri);
  out.end_object();
}

void encode_held(JsonWriter& out, const HeldExpert& held) {
  out.begin_object();
  out.member("layer", held.slot.layer);
  out.member("expert", held.slot.expert);
  out.member("replication", held.holders.size());
  out.key("holders");
  out.begin_array();
  for (const Holder& holder : held.holders) encode_holder(out, holder);
  out.end_array();
  out.end_object();
}

void encode_batch(JsonWriter& out, const PlannedBatch& batch) {
  out.begin_object();
  out.member("layer", batch.slot.layer);
  out.member("expert", batch.slot.expert);
  out.member("provider", to_hex(batch.provider));
  out.nullable("iroh_endpoint_id", batch.iroh_endpoint_id);
  out.nullable("http_endpoint", batch.http_endpoint);
  encode_indices(out, "token_indices", batch.token_indices);
  out.end_object();
}

void encode_assignment(JsonWriter& out, const TokenAssignment& assignment) {
  out.begin_object();
  out.member("token_index", assignment.token_index);
  out.key("slots");
  out.begin_array();
  for (const auto& [slot, provider] : assignment.slots) {
    out.begin_object();
    out.member("layer", slot.layer);
    out.member("expert", slot.expert);
    out.member("provider", to_hex(provider));
    out.end_object();
  }
  out.end_array();
  out.end_object();
}

}  // namespace

void encode(JsonWriter& out, const Policy& answer) {
  out.begin_object();
  out.member("min_replication", answer.min_replication);
  out.member("max_replication", answer.max_replication);
  out.member("hot_threshold_tps", answer.hot_threshold_tps);
  out.end_object();
}

void encode(JsonWriter& out, const ShardMapAnswer& answer) {
  out.begin_object();
  out.member("model_id", answer.model_id);
  out.member("covered_experts", answer.covered_experts);
  out.member("distinct_providers", answer.distinct_providers);
  out.member("expert_holders_role_count", answer.expert_holders_role_count);
  out.member("router_role_count", answer.router_role_count);
  out.member("prefill_role_count", answer.prefill_role_count);
  out.member("decode_role_count", answer.decode_role_count);
  out.member("replica_role_count", answer.replica_role_count);
  out.key("policy");
  encode(out, answer.policy);
  encode_slots(out, "under_replicated_experts", answer.under_replicated_experts);
  encode_slots(out, "hot_experts", answer.hot_experts);
  out.key("holders");
  out.begin_array();
  for (const HeldExpert& held : answer.holders) encode_held(out, held);
  out.end_array();
  out.end_object();
}

void encode(JsonWriter& out, const PlanDispatchAnswer& answer) {
  out.begin_object();
  out.member("model_id", answer.model_id);
  out.member("batch_count", answer.batches.size());
  out.key("batches");
  out.begin_array();
  for (const PlannedBatch& batch : answer.batches) encode_batch(out, batch);
  out.end_array();
  out.key("token_assignments");
  out.begin_array();
  for (const TokenAssignment& each : answer.token_assignments) encode_assignment(out, each);
  out.end_array();
  out.end_object();
}

void encode(JsonWriter& out, const CatalogShapeAnswer& answer) {
  out.begin_object();
  out.member("model_id", answer.model_id);
  out.member("is_moe", answer.moe.has_value());
  out.key("moe");
  if (answer.moe) {
    out.begin_object();
    out.member("num_experts", answer.moe->num_experts);
    out.member("experts_per_token", answer.moe->experts_per_token);
    out.member("shared_experts", answer.moe->shared_experts);
    out.key("params_per_expert_x10");
    if (answer.moe->params_per_expert_x10) {
      out.value(*answer.moe->params_per_expert_x10);
    } else {
      out.null();
    }
    out.end_object();
  } else {
    out.null();
  }
  out.member("architecture", answer.architecture);
  out.end_object();
}

}  // namespace tenzro::rpc
