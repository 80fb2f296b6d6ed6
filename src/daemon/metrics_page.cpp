#include "metrics_page.hpp"

#include <utility>
#include <vector>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace tenzro::daemon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<std::pair<std::string, std::string>>;

class Page {
 public:
  void counter(const char* name, const char* help, std::uint64_t value, const Labels& labels = {}) {
    ClientMetric& metric = add(name, help, MetricType::Counter, labels);
    metric.counter.value = static_cast<double>(value);
  }

  void gauge(const char* name, const char* help, std::uint64_t value, const Labels& labels = {}) {
    ClientMetric& metric = add(name, help, MetricType::Gauge, labels);
    metric.gauge.value = static_cast<double>(value);
  }

  [[nodiscard]] std::string text() const {
    return prometheus::TextSerializer().Serialize(families_);
  }

 private:
  ClientMetric& add(const char* name, const char* help, MetricType type, const Labels& labels) {
    if (families_.empty() || families_.back().name != name) {
      families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
    }
    ClientMetric& metric = families_.back().metric.emplace_back();
    for (const auto& [key, value] : labels) metric.label.push_back({key, value});
    return metric;
  }

  std::vector<MetricFamily> families_;
};

void add_peer_requests(Page& page, const node::Node& node) {
  const node::Totals& totals = node.totals();
  constexpr const char* kIn = "Requests of peers, by protocol";
  page.counter("tenzro_peer_requests_total", kIn, totals.peer_requests_exec,
               {{"protocol", "exec"}});
  page.counter("tenzro_peer_requests_total", kIn, totals.peer_requests_moe, {{"protocol", "moe"}});
  constexpr const char* kEnds = "Requests of peers that were admitted, by how they ended";
  page.counter("tenzro_peer_replies_total", kEnds, totals.peer_requests_served,
               {{"outcome", "served"}});
  page.counter("tenzro_peer_replies_total", kEnds, totals.peer_requests_failed,
               {{"outcome", "failed"}});
  page.counter("tenzro_peer_replies_total", kEnds, totals.peer_requests_cancelled,
               {{"outcome", "cancelled"}});
  constexpr const char* kRefused = "Requests of peers refused before any work";
  page.counter("tenzro_peer_refusals_total", kRefused, totals.peer_refused_busy,
               {{"reason", "busy"}});
  page.counter("tenzro_peer_refusals_total", kRefused, totals.peer_refused_forbidden,
               {{"reason", "forbidden"}});
  page.counter("tenzro_peer_refusals_total", kRefused, totals.peer_refused_malformed,
               {{"reason", "malformed"}});
  page.gauge("tenzro_peer_requests_in_progress", "Requests of peers in progress",
             node.peer_requests_in_progress());
}

void add_node(Page& page, const node::Node& node, Instant now) {
  const node::Totals& totals = node.totals();
  const holder::Counters& held = node.holder().counters();
  page.counter("tenzro_calls_total", "JSON-RPC calls given to the node", totals.calls);
  page.counter("tenzro_calls_refused_total", "Calls refused before any work",
               totals.calls_refused_busy, {{"reason", "busy"}});
  page.counter("tenzro_forwards_total", "Layer forwards begun", totals.forwards);
  page.counter("tenzro_forwards_failed_total", "Layer forwards that ended in an error",
               totals.forwards_failed);
  page.counter("tenzro_replans_total", "Replans within forwards", totals.replans);
  constexpr const char* kBatches = "Expert batches of forwards whose outputs were used";
  page.counter("tenzro_forward_batches_total", kBatches, totals.batches_local,
               {{"transport", "local"}});
  page.counter("tenzro_forward_batches_total", kBatches, totals.batches_iroh,
               {{"transport", "iroh"}});
  page.counter("tenzro_forward_batches_total", kBatches, totals.batches_http,
               {{"transport", "http"}});
  page.counter("tenzro_hedges_total", "Calls to a second holder while the first was late",
               totals.hedges);
  page.counter("tenzro_failovers_total", "Batches that lost their holder", totals.failovers);
  page.counter("tenzro_peer_failures_total", "Calls to holders that failed", totals.peer_failures);
  page.counter("tenzro_peer_busy_total", "Calls that met a busy holder", totals.peer_busy);
  page.counter("tenzro_executions_total", "Batches executed for tenzro_moeExecute",
               totals.executions);
  page.counter("tenzro_executions_failed_total", "Such batches that ended in an error",
               totals.executions_failed);
  page.counter("tenzro_token_expert_pairs_total", "(token, expert) pairs computed here",
               totals.token_expert_pairs);
  add_peer_requests(page, node);
  page.gauge("tenzro_requests_in_progress", "Calls in progress", node.requests_in_progress());
  page.gauge("tenzro_requests_max", "Calls in progress beyond which the node is busy",
             node.requests_max());
  page.gauge("tenzro_measured_tps", "(token, expert) pairs a second over the last minute",
             node.measured_tps(now));
  page.gauge("tenzro_experts", "Experts held", held.memory_experts, {{"tier", "memory"}});
  page.gauge("tenzro_experts", "Experts held", held.disk_experts, {{"tier", "disk"}});
  page.gauge("tenzro_resident_bytes", "Weights in memory", held.memory_bytes,
             {{"kind", "experts"}});
  page.gauge("tenzro_resident_bytes", "Weights in memory", held.gate_bytes, {{"kind", "gates"}});
  page.gauge("tenzro_memory_budget_bytes", "Memory that experts may take",
             node.holder().memory_budget_bytes());
  page.counter("tenzro_evictions_total", "Experts that lost their memory form",
               held.evicted_to_disk);
  page.counter("tenzro_admissions_over_budget_total", "Experts admitted beyond the budget",
               held.admissions_over_budget);
  page.gauge("tenzro_draining", "1 while the node takes no new work", node.is_draining() ? 1 : 0);
  page.gauge("tenzro_ready", "1 once remembered gates are loaded", node.is_ready() ? 1 : 0);
}

void add_http(Page& page, const http::Server& server) {
  const http::Stats stats = server.stats();
  page.gauge("tenzro_http_connections", "Open HTTP connections", stats.connections_open);
  page.counter("tenzro_http_connections_total", "HTTP connections accepted", stats.connections);
  page.counter("tenzro_http_requests_total", "HTTP requests", stats.requests);
  page.counter("tenzro_wire_bytes_total", "Bytes on the wire", stats.bytes_received,
               {{"transport", "http"}, {"direction", "in"}});
  page.counter("tenzro_wire_bytes_total", "Bytes on the wire", stats.bytes_sent,
               {{"transport", "http"}, {"direction", "out"}});
  page.gauge("tenzro_http_body_bytes", "Request bodies in memory", stats.bodies_bytes);
  for (const auto& [status, count] : stats.refusals) {
    page.counter("tenzro_http_refusals_total", "HTTP requests refused, by status", count,
                 {{"status", std::to_string(status)}});
  }
}

void add_http_client(Page& page, const http::Client& client) {
  const http::ClientStats stats = client.stats();
  constexpr const char* kCalls = "HTTP requests to other nodes that are over";
  page.counter("tenzro_http_client_calls_total", kCalls, stats.answered, {{"result", "answered"}});
  page.counter("tenzro_http_client_calls_total", kCalls, stats.failed, {{"result", "failed"}});
  page.counter("tenzro_http_client_calls_total", kCalls, stats.cancelled,
               {{"result", "cancelled"}});
  page.gauge("tenzro_http_client_calls_in_progress", "HTTP requests to other nodes under way",
             stats.in_progress);
  page.counter("tenzro_wire_bytes_total", "Bytes on the wire", stats.bytes_received,
               {{"transport", "http_client"}, {"direction", "in"}});
  page.counter("tenzro_wire_bytes_total", "Bytes on the wire", stats.bytes_sent,
               {{"transport", "http_client"}, {"direction", "out"}});
}

}  // namespace

std::string metrics_page(const MetricSources& sources, Instant now) {
  Page page;
  add_node(page, sources.node, now);
  add_http(page, sources.server);
  add_http_client(page, sources.client);
  page.gauge("tenzro_queue_depth", "Jobs waiting and running", sources.pool.depth(),
             {{"queue", "compute"}});
  const store::Usage usage = sources.store.usage();
  page.gauge("tenzro_blob_bytes", "Bytes of blobs on disk", usage.blob_bytes);
  page.gauge("tenzro_blob_budget_bytes", "Bytes of blobs allowed on disk; 0: no limit",
             usage.budget_bytes);
  return page.text();
}

}  // namespace tenzro::daemon
