#pragma once
/// \file
/// `GET /metrics`: the node's counters in the Prometheus text format; docs/metrics.md explains
/// each.
#include <string>

#include "tenzro/base/time.hpp"
#include "tenzro/exec/pool.hpp"
#include "tenzro/http/client.hpp"
#include "tenzro/http/server.hpp"
#include "tenzro/net/endpoint.hpp"
#include "tenzro/node/node.hpp"
#include "tenzro/store/store.hpp"

namespace tenzro::daemon {

struct MetricSources {
  const node::Node& node;
  const http::Server& server;
  const http::Client& client;
  const net::Endpoint& endpoint;
  const exec::Pool& pool;
  const store::Store& store;
  /// JSON-RPC answers that are not sent yet.
  std::size_t answers_bytes = 0;
};

[[nodiscard]] std::string metrics_page(const MetricSources& sources, Instant now);

}  // namespace tenzro::daemon
