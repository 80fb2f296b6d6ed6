#include "method.hpp"
#include "param_reader.hpp"

namespace tenzro::rpc {
namespace {

Result<Call> read_list_providers(ParamReader& params) {
  return params.finish(ListProvidersCall{});
}

Result<Call> read_node_status(ParamReader& params) {
  return params.finish(NodeStatusCall{});
}

Result<Call> read_node_drain(ParamReader& params) {
  return params.finish(NodeDrainCall{});
}

Result<Call> read_discover(ParamReader& params) {
  return params.finish(DiscoverCall{});
}

constexpr Method kMethods[] = {
    {"tenzro_listProviders",
     Scope::read,
     "The providers that this node knows, itself included.",
     {},
     "An array of provider records, each with its `reputation` and `quarantined_until_ms`.",
     {},
     "{}",
     "[]",
     read_list_providers},
    {"tenzro_nodeStatus",
     Scope::read,
     "What this node is and how it is doing.",
     {},
     "Identity, addresses, peers, memory and its hits since the start, the queue, the latency of "
     "recent forwards, and over the last minute tokens a second (`measured_tps`) and what one row "
     "through one expert took (`row_time_ns`).",
     {},
     "{}",
     R"({"version":"0.1.0","name":"node-a","endpoint_id":"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8","provider":"56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c","rpc_address":"127.0.0.1:8545","quic_address":"0.0.0.0:9001","uptime_s":3600,"peers":2,"memory_bytes":5013504,"memory_budget_bytes":8589934592,"experts":1,"gates":1,"queue_depth":0,"queue_max":256,"compute_backend":"cpu-avx512-vnni","profile":"exact","threads":8,"draining":false,"forwards":12,"forward_p50_us":810,"forward_p99_us":2400,"memory_experts":1,"memory_hits":90,"memory_misses":10,"promoted_to_memory":10,"evicted_to_disk":9,"measured_tps":120,"expert_jobs":0,"row_time_ns":41000})",
     read_node_status},
    {"tenzro_nodeDrain",
     Scope::admin,
     "Says goodbye to the mesh, finishes what is running and takes no new work from peers.",
     {},
     "`draining`: true.",
     {},
     "{}",
     R"({"draining":true})",
     read_node_drain},
    {"rpc.discover",
     Scope::read,
     "This reference as an OpenRPC document.",
     {},
     "The document; also proto/openrpc.json.",
     {},
     "{}",
     R"({"openrpc":"1.2.6"})",
     read_discover},
};

}  // namespace

std::span<const Method> node_methods() {
  return kMethods;
}

}  // namespace tenzro::rpc
