#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"
#include "tenzro/node/node.hpp"

namespace tenzro::node {

/// One row a known provider; so far this node alone.
Result<rpc::Answer> Node::list_providers(Instant now) const {
  using nlohmann::json;
  json rows = json::array();
  const std::uint32_t rate = meter_.rate(now);
  for (const auto& [address, provider] : view_.providers()) {
    json holdings = json::array();
    for (const auto& view : holder_.experts()) {
      holdings.push_back(
          {{"model_id", view.key.model},
           {"layer", view.key.layer},
           {"expert", view.key.expert},
           {"residency", view.in_memory ? "Warm" : "Cold"},
           {"committed_tps", rate},
           {"blob_uri", view.row->source_uri ? json(*view.row->source_uri) : json()}});
    }
    json roles = json::array();
    for (const shards::Role role : provider.roles) roles.push_back(shards::name_of(role));
    rows.push_back(
        {{"provider_address", to_hex(address)},
         {"name", about_.name},
         {"status", "active"},
         {"rpc_endpoint", provider.http_endpoint ? json(*provider.http_endpoint) : json()},
         {"iroh_endpoint_id", provider.endpoint_id ? json(*provider.endpoint_id) : json()},
         {"capacity",
          {{"moe_holdings", std::move(holdings)},
           {"moe_roles", std::move(roles)},
           {"moe_gpu", provider.has_gpu}}},
         {"pricing",
          {{"price_per_input_token", options_.price_per_input_token},
           {"minimum_price", options_.minimum_price}}},
         {"reputation", 0},
         {"quarantined_until_ms", nullptr}});
  }
  return rpc::ListProvidersAnswer{rows.dump(-1, ' ', false, json::error_handler_t::replace)};
}

}  // namespace tenzro::node
