#include "metrics_page.hpp"

#include <algorithm>
#include <iterator>
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
    // Once a name on a page, whoever adds to it: readers refuse a family that comes twice.
    auto family = std::find_if(families_.begin(), families_.end(),
                               [&](const MetricFamily& other) { return other.name == name; });
    if (family == families_.end()) {
      families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
      family = std::prev(families_.end());
    }
    ClientMetric& metric = family->metric.emplace_back();
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
  page.gauge("tenzro_memory_budget_bytes", "Memory that experts and gates may take",
             node.holder().memory_budget_bytes());
  constexpr const char* kAsked = "Experts that requests asked for, by whether memory had them";
  page.counter("tenzro_expert_lookups_total", kAsked, held.hits, {{"result", "hit"}});
  page.counter("tenzro_expert_lookups_total", kAsked, held.misses, {{"result", "miss"}});
  constexpr const char* kPromoted = "Experts read from disk into memory";
  page.counter("tenzro_promotions_total", kPromoted, held.promoted_wanted, {{"reason", "wanted"}});
  page.counter("tenzro_promotions_total", kPromoted, held.promoted_idle, {{"reason", "room"}});
  page.counter("tenzro_streamed_total",
               "Experts too large for memory that were opened to be run from disk by slices",
               held.streamed);
  page.gauge("tenzro_expert_jobs", "Jobs of experts under way", node.service_meter().jobs());
  page.gauge("tenzro_row_time_ns", "What one row through one expert took over the last minute",
             node.service_meter().row_time_ns(now));
  page.counter("tenzro_evictions_total", "Experts that lost their memory form",
               held.evicted_to_disk);
  page.counter("tenzro_admissions_over_budget_total", "Experts admitted beyond the budget",
               held.admissions_over_budget);
  page.gauge("tenzro_draining", "1 while the node takes no new work", node.is_draining() ? 1 : 0);
  page.gauge("tenzro_ready", "1 once remembered gates are loaded", node.is_ready() ? 1 : 0);
}

void add_repair(Page& page, const repair::Repair& repair) {
  const repair::Totals& totals = repair.totals();
  const repair::Findings& found = repair.findings();
  page.counter("tenzro_repair_passes_total", "Passes over the experts", totals.passes);
  constexpr const char* kFetches = "Experts fetched because copies were missing, by result";
  page.counter("tenzro_repair_fetches_total", kFetches, totals.admitted, {{"result", "admitted"}});
  page.counter("tenzro_repair_fetches_total", kFetches, totals.fetches_failed,
               {{"result", "failed"}});
  page.counter("tenzro_repair_fetches_total", kFetches, totals.fetches_cancelled,
               {{"result", "cancelled"}});
  page.counter("tenzro_repair_admitted_bytes_total", "Bytes of experts admitted by repair",
               totals.admitted_bytes);
  page.counter("tenzro_repair_passed_over_total", "Candidates passed over for an expert",
               totals.passed_over);
  page.counter("tenzro_repair_surplus_total", "Copies found to be too many here", totals.drops);
  page.gauge("tenzro_repair_in_flight", "Fetches of repair under way", repair.in_flight());
  constexpr const char* kMissing = "Experts below the floor in the last pass, by holders that stay";
  page.gauge("tenzro_under_replicated_experts", kMissing, found.one_holder,
             {{"holders", "one_or_none"}});
  page.gauge("tenzro_under_replicated_experts", kMissing, found.under_replicated - found.one_holder,
             {{"holders", "more"}});
  page.gauge("tenzro_repair_disputed_experts",
             "Missing experts of which it is open which bytes they are", found.disputed);
  page.gauge("tenzro_repair_absent_providers", "Providers that went and may come back",
             repair.absent());
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

void add_quic(Page& page, const net::Endpoint& endpoint) {
  const net::Totals totals = endpoint.totals();
  page.counter("tenzro_wire_bytes_total", "Bytes on the wire", totals.bytes_received,
               {{"transport", "quic"}, {"direction", "in"}});
  page.counter("tenzro_wire_bytes_total", "Bytes on the wire", totals.bytes_sent,
               {{"transport", "quic"}, {"direction", "out"}});
  page.gauge("tenzro_quic_connections", "QUIC connections, in both directions",
             endpoint.connections());
  constexpr const char* kPackets = "UDP payloads of QUIC";
  page.counter("tenzro_quic_packets_total", kPackets, totals.packets_received,
               {{"direction", "in"}});
  page.counter("tenzro_quic_packets_total", kPackets, totals.packets_sent, {{"direction", "out"}});
  page.counter("tenzro_quic_packets_dropped_total", "Packets of no connection",
               totals.packets_dropped);
  constexpr const char* kHandshakes = "QUIC handshakes that are over";
  page.counter("tenzro_quic_handshakes_total", kHandshakes, totals.handshakes,
               {{"result", "finished"}});
  page.counter("tenzro_quic_handshakes_total", kHandshakes, totals.handshakes_failed,
               {{"result", "failed"}});
  page.counter("tenzro_quic_retries_total", "Newcomers asked to prove their address",
               totals.retries);
  page.counter("tenzro_quic_stateless_resets_total", "Stateless resets sent",
               totals.stateless_resets);
  page.counter("tenzro_quic_gso_fallbacks_total", "Batches the system did not send as one",
               totals.gso_fallbacks);
  page.counter("tenzro_quic_black_holes_total", "Paths that swallowed large packets",
               totals.mtu_black_holes);
  page.counter("tenzro_quic_requests_refused_total", "Requests whose stream was reset unanswered",
               totals.requests_refused);
}

void add_membership(Page& page, const membership::Membership& members) {
  const membership::Totals& totals = members.totals();
  page.gauge("tenzro_members", "Other nodes known and not gone", members.peers().size());
  constexpr const char* kBeats = "Beats of others, by what became of them";
  const auto beats = [&](const char* verdict, std::uint64_t count) {
    page.counter("tenzro_member_beats_total", kBeats, count, {{"verdict", verdict}});
  };
  beats("applied", totals.beats);
  beats("replay", totals.replays);
  beats("denied", totals.denied);
  beats("from_future", totals.from_future);
  beats("too_old", totals.too_old);
  beats("full", totals.full);
  constexpr const char* kRecords = "Provider records of others with a good signature";
  page.counter("tenzro_member_records_total", kRecords, totals.records, {{"verdict", "applied"}});
  page.counter("tenzro_member_records_total", kRecords, totals.records_unwanted,
               {{"verdict", "unwanted"}});
  page.counter("tenzro_member_suspicions_total", "Members that became suspect", totals.suspected);
  constexpr const char* kGone = "Members that went";
  page.counter("tenzro_members_gone_total", kGone, totals.downs, {{"reason", "silence"}});
  page.counter("tenzro_members_gone_total", kGone, totals.goodbyes, {{"reason", "goodbye"}});
}

void add_gossip(Page& page, const gossip::Gossip& gossip) {
  const gossip::Totals& totals = gossip.totals();
  page.gauge("tenzro_gossip_links", "Nodes that news is pushed to", gossip.links());
  page.counter("tenzro_gossip_calls_total", "Gossip calls made", totals.calls);
  page.counter("tenzro_gossip_calls_failed_total", "Gossip calls that failed", totals.calls_failed);
  page.counter("tenzro_gossip_requests_total", "Gossip requests of others", totals.requests);
  page.counter("tenzro_gossip_requests_refused_total", "Gossip requests refused", totals.refused);
  page.counter("tenzro_gossip_sent_bytes_total", "Bytes of gossip requests and replies sent",
               totals.bytes_sent);
  page.counter("tenzro_gossip_record_sent_bytes_total", "Of those, bytes of provider records",
               totals.record_bytes_sent);
  page.counter("tenzro_gossip_beats_sent_total", "Beats sent", totals.beats_sent);
  page.counter("tenzro_gossip_beats_repeated_total", "Beats received that were known",
               totals.beats_repeated);
  constexpr const char* kBad = "What others sent and nobody could use";
  page.counter("tenzro_gossip_bad_total", kBad, totals.bad_signatures, {{"kind", "signature"}});
  page.counter("tenzro_gossip_bad_total", kBad, totals.bad_items, {{"kind", "item"}});
  add_membership(page, gossip.membership());
}

void add_blobs(Page& page, const node::Node& node) {
  const fetch::Totals& fetched = node.fetch_totals();
  page.counter("tenzro_fetches_total", "Blobs asked of peers", fetched.fetches);
  page.counter("tenzro_fetches_failed_total", "Blobs that no peer gave", fetched.fetches_failed);
  constexpr const char* kBytes = "Bytes of blobs, to and from peers";
  page.counter("tenzro_fetch_bytes_total", kBytes, fetched.bytes_received, {{"direction", "in"}});
  page.counter("tenzro_fetch_resumed_bytes_total", "Bytes of blobs kept from an earlier fetch",
               fetched.bytes_resumed);
  page.counter("tenzro_fetch_mismatches_total", "Fetched blobs that were not what was asked for",
               fetched.mismatches);
  page.counter("tenzro_fetch_liars_total", "Sources that gave other bytes", fetched.liars);
  page.counter("tenzro_fetch_sources_dropped_total", "Sources given up during a fetch",
               fetched.sources_dropped);
  const fetch::ServingTotals& served = node.serving_totals();
  page.counter("tenzro_fetch_bytes_total", kBytes, served.bytes_sent, {{"direction", "out"}});
  page.counter("tenzro_blob_requests_total", "Blob requests of peers", served.requests);
  constexpr const char* kRefused = "Blob requests of peers that got no bytes";
  page.counter("tenzro_blob_refusals_total", kRefused, served.busy, {{"reason", "busy"}});
  page.counter("tenzro_blob_refusals_total", kRefused, served.not_found, {{"reason", "not_found"}});
  page.counter("tenzro_blob_refusals_total", kRefused, served.refused, {{"reason", "refused"}});
}

}  // namespace

std::string metrics_page(const MetricSources& sources, Instant now) {
  Page page;
  add_node(page, sources.node, now);
  add_repair(page, sources.node.repair());
  add_http(page, sources.server);
  add_http_client(page, sources.client);
  add_quic(page, sources.endpoint);
  if (const gossip::Gossip* gossip = sources.node.gossip()) add_gossip(page, *gossip);
  add_blobs(page, sources.node);
  page.gauge("tenzro_queue_depth", "Jobs waiting and running", sources.pool.depth(),
             {{"queue", "compute"}});
  page.gauge("tenzro_rpc_answer_bytes", "JSON-RPC answers that are not sent yet",
             sources.answers_bytes);
  const store::Usage usage = sources.store.usage();
  page.gauge("tenzro_blob_bytes", "Bytes of blobs on disk", usage.blob_bytes);
  page.gauge("tenzro_blob_budget_bytes", "Bytes of blobs allowed on disk; 0: no limit",
             usage.budget_bytes);
  return page.text();
}

}  // namespace tenzro::daemon
