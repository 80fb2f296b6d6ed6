#include "tenzro/base/bytes.hpp"

#include "answer_encoder.hpp"

namespace tenzro::rpc {
namespace {

void encode_signed(JsonWriter& out, std::string_view name, std::int64_t number) {
  out.key(name);
  out.raw(std::to_string(number));
}

template <typename T>
void encode_number(JsonWriter& out, std::string_view name, const std::optional<T>& number) {
  out.key(name);
  if (number) {
    out.raw(std::to_string(*number));
  } else {
    out.null();
  }
}

void encode_list(JsonWriter& out, std::string_view name, const std::vector<std::string>& texts) {
  out.key(name);
  out.begin_array();
  for (const std::string& text : texts) out.value(std::string_view(text));
  out.end_array();
}

void encode_holdings(JsonWriter& out, const ProviderRow& row) {
  out.key("moe_holdings");
  out.begin_array();
  for (const ProviderRow::Holding& holding : row.holdings) {
    out.begin_object();
    out.member("model_id", std::string_view(holding.key.model));
    out.member("layer", holding.key.layer);
    out.member("expert", holding.key.expert);
    out.member("residency",
               std::string_view(holding.residency == Residency::warm ? "Warm" : "Cold"));
    out.member("committed_tps", row.committed_tps);
    out.nullable("blob_uri", holding.blob_uri);
    out.end_object();
  }
  out.end_array();
}

std::string_view status_of(const ProviderRow& row) {
  if (row.is_suspect) return "suspect";
  return row.is_draining ? "draining" : "active";
}

void encode_row(JsonWriter& out, const ProviderRow& row) {
  out.begin_object();
  out.member("provider_address", std::string_view(to_hex(row.address)));
  out.member("name", std::string_view(row.name));
  out.member("status", status_of(row));
  out.member("self", row.is_self);
  out.member("draining", row.is_draining);
  out.nullable("rpc_endpoint", row.rpc_endpoint);
  out.nullable("iroh_endpoint_id", row.endpoint_id);
  encode_list(out, "addresses", row.addresses);
  out.member("version", std::string_view(row.software));
  out.key("capacity");
  out.begin_object();
  out.member("max_concurrent_requests", row.max_concurrent_requests);
  out.member("active_requests", row.active_requests);
  encode_holdings(out, row);
  encode_list(out, "moe_roles", row.roles);
  out.member("moe_gpu", row.has_gpu);
  encode_list(out, "profiles", row.profiles);
  out.member("committed_tps", row.committed_tps);
  out.end_object();
  out.key("pricing");
  out.begin_object();
  out.member("price_per_input_token", row.price_per_input_token);
  out.member("minimum_price", row.minimum_price);
  out.end_object();
  encode_signed(out, "reputation", row.reputation);
  encode_number(out, "quarantined_until_ms", row.quarantined_until_ms);
  encode_number(out, "last_seen_ms", row.last_seen_ms);
  encode_number(out, "clock_lag_ms", row.clock_lag_ms);
  out.end_object();
}

}  // namespace

void encode(JsonWriter& out, const ListProvidersAnswer& answer) {
  out.begin_array();
  for (const ProviderRow& row : answer.providers) encode_row(out, row);
  out.end_array();
}

}  // namespace tenzro::rpc
