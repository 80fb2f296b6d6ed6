#include "answer_encoder.hpp"

namespace tenzro::rpc {
namespace {

std::string_view name_of(Tier tier) {
  return tier == Tier::memory ? "memory" : "disk";
}

std::string_view name_of(PrepareState state) {
  switch (state) {
    case PrepareState::running:
      return "running";
    case PrepareState::completed:
      return "completed";
    case PrepareState::failed:
      return "failed";
    case PrepareState::cancelled:
      return "cancelled";
    case PrepareState::waiting:
      return "waiting";
  }
  return "unknown";
}

void encode_blob(JsonWriter& out, const PreparedBlob& blob) {
  out.member("uri", blob.uri);
  out.member("bytes", blob.bytes);
}

void encode_prepared_expert(JsonWriter& out, const PreparedBlob& blob) {
  out.begin_object();
  out.member("layer", blob.layer);
  out.member("expert", blob.expert);
  encode_blob(out, blob);
  if (blob.quant) out.member("quant", tensor::name_of(*blob.quant));
  encode_weights(out, blob.gate_type, blob.up_type, blob.down_type);
  out.end_object();
}

/// One layer is a number, several are a list.
void encode_layers(JsonWriter& out, LayerIndex layer, const std::vector<LayerIndex>& layers) {
  out.key("layer");
  if (layers.empty()) return out.value(layer);
  out.begin_array();
  for (const LayerIndex each : layers) out.value(each);
  out.end_array();
}

void encode_milliseconds(JsonWriter& out, std::string_view name,
                         const std::optional<std::uint64_t>& milliseconds) {
  out.key(name);
  if (milliseconds) {
    out.value(*milliseconds);
  } else {
    out.null();
  }
}

void encode_progress(JsonWriter& out, const PrepareProgress& progress) {
  out.key("progress");
  out.begin_object();
  out.member("bytes_read", progress.bytes_read);
  out.member("bytes_wanted", progress.bytes_wanted);
  out.member("bytes_published", progress.bytes_published);
  out.member("elapsed_ms", progress.elapsed_ms);
  encode_milliseconds(out, "left_ms", progress.left_ms);
  out.key("waiting");
  if (progress.rate_limit_ms) {
    out.value(std::string_view("waiting for rate limit"));
  } else {
    out.null();
  }
  encode_milliseconds(out, "waiting_ms", progress.rate_limit_ms);
  out.end_object();
}

void encode_gates(JsonWriter& out, const std::vector<PreparedBlob>& gates) {
  out.key("gates");
  out.begin_array();
  for (const PreparedBlob& gate : gates) {
    out.begin_object();
    out.member("layer", gate.layer);
    encode_blob(out, gate);
    out.end_object();
  }
  out.end_array();
}

template <typename Row>
void encode_rows(JsonWriter& out, std::string_view name, const std::vector<Row>& rows) {
  out.key(name);
  out.begin_array();
  for (const Row& row : rows) encode(out, row);
  out.end_array();
}

}  // namespace

void encode(JsonWriter& out, const ExpertRow& answer) {
  out.begin_object();
  out.member("model_id", answer.key.model);
  out.member("layer", answer.key.layer);
  out.member("expert", answer.key.expert);
  out.member("d_model", answer.d_model);
  out.member("d_ff", answer.d_ff);
  out.member("approx_bytes", answer.approx_bytes);
  out.member("tier", name_of(answer.tier));
  if (answer.quant) out.member("quant", tensor::name_of(*answer.quant));
  if (answer.source_uri) out.member("source_uri", *answer.source_uri);
  encode_weights(out, answer.gate_type, answer.up_type, answer.down_type);
  out.end_object();
}

void encode(JsonWriter& out, const GateRow& answer) {
  out.begin_object();
  out.member("model_id", answer.key.model);
  out.member("layer", answer.key.layer);
  out.member("num_experts", answer.num_experts);
  out.member("d_model", answer.d_model);
  out.member("approx_bytes", answer.approx_bytes);
  out.end_object();
}

void encode(JsonWriter& out, const UnloadAnswer& answer) {
  out.begin_object();
  out.member("model_id", answer.key.model);
  out.member("layer", answer.key.layer);
  if (answer.expert) out.member("expert", *answer.expert);
  out.member("removed", answer.removed);
  out.end_object();
}

void encode(JsonWriter& out, const ExpertStatusAnswer& answer) {
  out.begin_object();
  encode_rows(out, "experts", answer.experts);
  encode_rows(out, "gates", answer.gates);
  out.member("total_bytes", answer.total_bytes);
  out.member("memory_bytes", answer.memory_bytes);
  out.member("memory_budget_bytes", answer.memory_budget_bytes);
  out.member("memory_experts", answer.memory_experts);
  out.member("disk_experts", answer.disk_experts);
  out.member("compute_backend", answer.compute_backend);
  out.member("gpu", answer.gpu);
  out.member("evicted_to_disk", answer.evicted_to_disk);
  out.member("evicted_dropped", answer.evicted_dropped);
  out.member("admissions_over_budget", answer.admissions_over_budget);
  out.member("measured_tps", answer.measured_tps);
  out.member("memory_hits", answer.memory_hits);
  out.member("memory_misses", answer.memory_misses);
  out.member("promoted_to_memory", answer.promoted_to_memory);
  out.end_object();
}

void encode(JsonWriter& out, const PrepareStartedAnswer& answer) {
  out.begin_object();
  out.member("job_id", answer.job_id);
  out.member("model_id", answer.key.model);
  encode_layers(out, answer.key.layer, answer.layers);
  out.member("total_experts", answer.total_experts);
  out.member("include_gate", answer.include_gate);
  out.key("quant");
  out.raw(answer.quant_json.empty() ? "null" : std::string_view(answer.quant_json));
  out.member("state", name_of(answer.state));
  out.end_object();
}

void encode(JsonWriter& out, const PrepareStatusAnswer& answer) {
  out.begin_object();
  out.member("job_id", answer.job_id);
  out.member("model_id", answer.key.model);
  encode_layers(out, answer.key.layer, answer.layers);
  out.member("source", answer.source);
  out.member("state", name_of(answer.state));
  out.nullable("error", answer.error);
  out.member("total_experts", answer.total_experts);
  const std::size_t completed = answer.completed_experts.value_or(answer.experts.size());
  out.member("completed_experts", completed);
  encode_progress(out, answer.progress);
  out.key("experts");
  out.begin_array();
  for (const PreparedBlob& blob : answer.experts) encode_prepared_expert(out, blob);
  out.end_array();
  out.key("gate");
  if (answer.gate) {
    out.begin_object();
    encode_blob(out, *answer.gate);
    out.end_object();
  } else {
    out.null();
  }
  if (!answer.layers.empty()) encode_gates(out, answer.gates);
  out.end_object();
}

void encode(JsonWriter& out, const PrepareListAnswer& answer) {
  out.begin_object();
  encode_rows(out, "jobs", answer.jobs);
  out.member("count", answer.jobs.size());
  out.end_object();
}

void encode(JsonWriter& out, const PrepareCancelAnswer& answer) {
  out.begin_object();
  out.member("job_id", answer.job_id);
  out.member("cancelled", answer.cancelled);
  out.end_object();
}

}  // namespace tenzro::rpc
