#include "answer_encoder.hpp"

#include "tenzro/base/bytes.hpp"
#include "tenzro/rpc/exchange.hpp"
#include "tenzro/wire/uri.hpp"

namespace tenzro::rpc {
namespace {

void encode_texts(JsonWriter& out, std::string_view name, const std::vector<std::string>& texts) {
  out.key(name);
  out.begin_array();
  for (const std::string& text : texts) out.value(text);
  out.end_array();
}

void encode_projection(JsonWriter& out, std::string_view name, tensor::WeightType type) {
  out.key(name);
  out.begin_object();
  out.member("type", tensor::name_of(type));
  out.member("bits", tensor::bits_per_weight(type));
  out.end_object();
}

}  // namespace

void encode_slots(JsonWriter& out, std::string_view name, const std::vector<ExpertSlot>& slots) {
  out.key(name);
  out.begin_array();
  for (const ExpertSlot& slot : slots) {
    out.begin_object();
    out.member("layer", slot.layer);
    out.member("expert", slot.expert);
    out.end_object();
  }
  out.end_array();
}

void encode_indices(JsonWriter& out, std::string_view name,
                    const std::vector<std::uint32_t>& indices) {
  out.key(name);
  out.begin_array();
  for (const std::uint32_t index : indices) out.value(index);
  out.end_array();
}

void encode_weights(JsonWriter& out, const std::optional<tensor::WeightType>& gate,
                    tensor::WeightType up, tensor::WeightType down) {
  out.key("weights");
  out.begin_object();
  if (gate) encode_projection(out, "gate", *gate);
  encode_projection(out, "up", up);
  encode_projection(out, "down", down);
  out.end_object();
}

void encode(JsonWriter& out, const PublishBlobAnswer& answer) {
  out.begin_object();
  out.member("tenzro_uri", wire::format_blob_uri(answer.hash));
  out.member("blake3_hex", to_hex(answer.hash));
  out.member("size_bytes", answer.size_bytes);
  out.end_object();
}

void encode(JsonWriter& out, const FetchBlobAnswer& answer) {
  out.begin_object();
  out.key("bytes_b64");
  out.base64(answer.bytes);
  out.end_object();
}

void encode(JsonWriter& out, const EndpointInfoAnswer& answer) {
  const std::string id = to_hex(answer.endpoint_id);
  out.begin_object();
  out.member("endpoint_id", id);
  out.member("endpoint_id_hex", id);
  out.member("docs_enabled", false);
  encode_texts(out, "alpns", answer.alpns);
  out.end_object();
}

void encode(JsonWriter& out, const EndpointIdAnswer& answer) {
  out.begin_object();
  out.member("endpoint_id", to_hex(answer.endpoint_id));
  out.end_object();
}

void encode(JsonWriter& out, const AlpnListAnswer& answer) {
  out.begin_object();
  encode_texts(out, "alpns", answer.alpns);
  out.end_object();
}

void encode(JsonWriter& out, const ModelMetadataAnswer& answer) {
  out.raw(answer.json);
}

void encode(JsonWriter& out, const NodeStatusAnswer& answer) {
  out.begin_object();
  out.member("version", answer.version);
  out.member("name", answer.name);
  out.member("endpoint_id", to_hex(answer.endpoint_id));
  out.member("provider", to_hex(answer.provider));
  out.member("rpc_address", answer.rpc_address);
  out.member("quic_address", answer.quic_address);
  out.member("uptime_s", answer.uptime_s);
  out.member("peers", answer.peers);
  out.member("memory_bytes", answer.memory_bytes);
  out.member("memory_budget_bytes", answer.memory_budget_bytes);
  out.member("experts", answer.experts);
  out.member("gates", answer.gates);
  out.member("queue_depth", answer.queue_depth);
  out.member("queue_max", answer.queue_max);
  out.member("compute_backend", answer.compute_backend);
  out.member("profile", answer.profile);
  out.member("threads", answer.threads);
  out.member("draining", answer.draining);
  out.member("forwards", answer.forwards);
  out.member("forward_p50_us", answer.forward_p50_us);
  out.member("forward_p99_us", answer.forward_p99_us);
  out.member("memory_experts", answer.memory_experts);
  out.member("memory_hits", answer.memory_hits);
  out.member("memory_misses", answer.memory_misses);
  out.member("promoted_to_memory", answer.promoted_to_memory);
  out.member("evicted_to_disk", answer.evicted_to_disk);
  out.member("measured_tps", answer.measured_tps);
  out.member("expert_jobs", answer.expert_jobs);
  out.member("row_time_ns", answer.row_time_ns);
  out.end_object();
}

void encode(JsonWriter& out, const NodeDrainAnswer& answer) {
  out.begin_object();
  out.member("draining", answer.draining);
  out.end_object();
}

void encode(JsonWriter& out, const DiscoverAnswer& /*answer*/) {
  out.raw(open_rpc_document());
}

void encode_answer(JsonWriter& out, const Answer& answer) {
  std::visit([&out](const auto& each) { encode(out, each); }, answer);
}

}  // namespace tenzro::rpc
