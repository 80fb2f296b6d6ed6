#include "tenzro/base/assert.hpp"

#include "answer_encoder.hpp"

namespace tenzro::rpc {
namespace {

void encode_routed(JsonWriter& out, LayerIndex layer, const RoutedTokens& routed) {
  TENZRO_ASSERT(routed.slots.size() == std::size_t{routed.tokens} * routed.slots_per_token);
  out.key("routed");
  out.begin_array();
  const WeightedSlot* slot = routed.slots.data();
  for (std::uint32_t token = 0; token < routed.tokens; ++token) {
    out.begin_object();
    out.member("token_index", token);
    out.key("slots");
    out.begin_array();
    for (std::uint32_t i = 0; i < routed.slots_per_token; ++i, ++slot) {
      out.begin_object();
      out.member("layer", layer);
      out.member("expert", slot->expert);
      out.member("weight", slot->weight);
      out.end_object();
    }
    out.end_array();
    out.end_object();
  }
  out.end_array();
}

void encode_missing(JsonWriter& out, const std::vector<MissingExpert>& missing) {
  out.key("missing");
  out.begin_array();
  for (const MissingExpert& each : missing) {
    out.begin_object();
    out.member("layer", each.slot.layer);
    out.member("expert", each.slot.expert);
    encode_indices(out, "tokens", each.tokens);
    out.end_object();
  }
  out.end_array();
}

void encode_tensor(JsonWriter& out, std::string_view name, const BufferRef& tensor) {
  out.key(name);
  out.base64(tensor);
}

}  // namespace

void encode(JsonWriter& out, const RouteAnswer& answer) {
  out.begin_object();
  out.member("model_id", answer.key.model);
  out.member("layer", answer.key.layer);
  out.member("top_k", answer.top_k);
  out.member("tokens", answer.routed.tokens);
  encode_routed(out, answer.key.layer, answer.routed);
  out.end_object();
}

void encode(JsonWriter& out, const ForwardAnswer& answer) {
  out.begin_object();
  out.member("model_id", answer.key.model);
  out.member("layer", answer.key.layer);
  out.member("d_model", answer.d_model);
  out.member("top_k", answer.top_k);
  out.member("tokens", answer.tokens);
  out.member("batches", answer.batches);
  out.member("replans", answer.replans);
  encode_missing(out, answer.missing);
  out.key("transports");
  out.begin_object();
  out.member("local", answer.transports_local);
  out.member("iroh", answer.transports_iroh);
  out.member("http", answer.transports_http);
  out.end_object();
  encode_routed(out, answer.key.layer, answer.routed);
  encode_tensor(out, "outputs", answer.outputs);
  out.member("carrier", answer.carrier);
  out.member("profile", answer.profile);
  out.end_object();
}

void encode(JsonWriter& out, const ExecuteAnswer& answer) {
  out.begin_object();
  out.member("model_id", answer.key.model);
  out.member("layer", answer.key.layer);
  out.member("expert", answer.key.expert);
  encode_indices(out, "token_indices", answer.token_indices);
  out.member("d_model", answer.d_model);
  encode_tensor(out, "outputs", answer.outputs);
  if (answer.receipt_json) {
    out.key("receipt");
    out.raw(*answer.receipt_json);
  }
  if (answer.receipt2_json) {
    out.key("receipt2");
    out.raw(*answer.receipt2_json);
  }
  out.end_object();
}

}  // namespace tenzro::rpc
