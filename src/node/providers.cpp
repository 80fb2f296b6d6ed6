#include <algorithm>

#include "tenzro/base/bytes.hpp"
#include "tenzro/node/node.hpp"

#include "presence.hpp"

namespace tenzro::node {
namespace {

using Holdings = std::vector<std::pair<ExpertKey, const shards::Holding*>>;

std::uint64_t milliseconds(Duration duration) {
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(duration);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, whole.count()));
}

rpc::ProviderRow to_row(const shards::Provider& provider, const Holdings& holdings) {
  rpc::ProviderRow row{.address = provider.address};
  row.is_suspect = provider.health == shards::Health::suspect;
  row.is_draining = provider.is_draining;
  row.rpc_endpoint = provider.http_endpoint;
  row.endpoint_id = provider.endpoint_id;
  row.addresses = provider.addresses;
  row.has_gpu = provider.has_gpu;
  row.committed_tps = provider.committed_tps;
  row.price_per_input_token = provider.price_per_input_token;
  row.minimum_price = provider.minimum_price;
  for (const shards::Role role : provider.roles) row.roles.emplace_back(shards::name_of(role));
  for (const compute::Profile profile : {compute::Profile::exact, compute::Profile::fast}) {
    if ((provider.profiles >> static_cast<unsigned>(profile) & 1U) != 0)
      row.profiles.emplace_back(compute::name_of(profile));
  }
  row.holdings.reserve(holdings.size());
  for (const auto& [key, holding] : holdings) {
    row.holdings.push_back(
        {key, holding->is_warm ? rpc::Residency::warm : rpc::Residency::cold, holding->blob_uri});
  }
  return row;
}

}  // namespace

/// One row a known provider, this node among them.
Result<rpc::Answer> Node::list_providers(Instant now) {
  view_.set_rate(about_.provider, meter_.rate(now));
  rpc::ListProvidersAnswer answer;
  const auto holdings = view_.by_provider();
  for (const auto& [address, provider] : view_.providers()) {
    const auto held = holdings.find(address);
    rpc::ProviderRow row = to_row(provider, held == holdings.end() ? Holdings{} : held->second);
    const membership::Peer* peer =
        presence_ == nullptr ? nullptr : presence_->gossip().membership().find(address);
    if (address == about_.provider) {
      row.is_self = true;
      row.is_draining = is_draining_;
      row.name = about_.name;
      row.software = about_.version;
      row.active_requests = static_cast<std::uint32_t>(requests_.size() + peer_requests_.size());
      row.max_concurrent_requests = static_cast<std::uint32_t>(options_.requests_max);
    } else if (peer != nullptr && peer->facts != nullptr) {
      row.name = peer->facts->name;
      row.software = peer->facts->software;
      row.active_requests = peer->beat.load.in_flight;
      row.max_concurrent_requests = peer->beat.load.queue_max;
      row.clock_lag_ms = peer->lag_ms;
      row.last_seen_ms = milliseconds(now - peer->heard);
    }
    if (const ledger::Standing* standing = standings_.find(address)) {
      row.reputation = standing->reputation;
      // Only members are called, so the wall clock came with joining.
      if (presence_ != nullptr && standing->quarantined_until && now < *standing->quarantined_until)
        row.quarantined_until_ms =
            presence_->gossip().membership().wall_ms(*standing->quarantined_until);
    }
    answer.providers.push_back(std::move(row));
  }
  return answer;
}

}  // namespace tenzro::node
