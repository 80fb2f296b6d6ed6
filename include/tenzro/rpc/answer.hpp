#pragma once
/// \file
/// Typed results of JSON-RPC calls; `rpc` alone turns them into JSON.
///
/// Field names are the JSON keys unless a comment says otherwise. Tensors stay in BufferRefs and
/// are written as base64 straight into the reply.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/rpc/call.hpp"
#include "tenzro/tensor/block.hpp"

namespace tenzro::rpc {

struct Policy {
  std::uint32_t min_replication = 2;
  std::uint32_t max_replication = 8;
  std::uint32_t hot_threshold_tps = 1000;
};

enum class Residency : std::uint8_t { warm, cold };  ///< "Warm", "Cold"

struct Holder {
  ProviderAddress provider{};  ///< lower hex
  Residency residency = Residency::warm;
  std::uint32_t committed_tps = 0;
  std::optional<std::string> iroh_endpoint_id;  ///< null where absent
  std::optional<std::string> http_endpoint;
  std::optional<std::string> blob_uri;
};

struct HeldExpert {
  ExpertSlot slot;  ///< "layer", "expert"; then "replication" = holders.size()
  std::vector<Holder> holders;
};

struct ShardMapAnswer {
  ModelId model_id;
  std::uint32_t covered_experts = 0;
  std::uint32_t distinct_providers = 0;
  std::uint32_t expert_holders_role_count = 0;
  std::uint32_t router_role_count = 0;
  std::uint32_t prefill_role_count = 0;
  std::uint32_t decode_role_count = 0;
  std::uint32_t replica_role_count = 0;
  Policy policy;
  std::vector<ExpertSlot> under_replicated_experts;
  std::vector<ExpertSlot> hot_experts;
  std::vector<HeldExpert> holders;
};

struct PlannedBatch {
  ExpertSlot slot;
  ProviderAddress provider{};
  std::optional<std::string> iroh_endpoint_id;
  std::optional<std::string> http_endpoint;
  std::vector<std::uint32_t> token_indices;
};

struct TokenAssignment {
  std::uint32_t token_index = 0;
  /// "slots": [{layer, expert, provider}]
  std::vector<std::pair<ExpertSlot, ProviderAddress>> slots;
};

struct PlanDispatchAnswer {  // plus "batch_count"
  ModelId model_id;
  std::vector<PlannedBatch> batches;
  std::vector<TokenAssignment> token_assignments;
};

struct CatalogShapeAnswer {  // "is_moe", "moe": null | {...}

  struct Shape {
    std::uint32_t num_experts = 0;
    std::uint32_t experts_per_token = 0;
    std::uint32_t shared_experts = 0;
    std::optional<std::uint32_t> params_per_expert_x10;
  };

  ModelId model_id;
  std::optional<Shape> moe;
  std::string architecture;
};

/// `json` is a complete JSON value made by the catalogue's own encoder.
struct ModelMetadataAnswer {
  std::string json;
};

enum class Tier : std::uint8_t { memory, disk };

struct ExpertRow {
  ExpertKey key;  ///< "model_id", "layer", "expert"
  std::uint32_t d_model = 0;
  std::uint32_t d_ff = 0;
  std::uint64_t approx_bytes = 0;
  Tier tier = Tier::memory;
  std::optional<tensor::WeightType> quant;  ///< omitted where absent
  std::optional<std::string> source_uri;    ///< omitted where absent
  /// "weights": {gate: {type, bits}, up, down}; gate is omitted for two-matrix experts.
  std::optional<tensor::WeightType> gate_type;
  tensor::WeightType up_type = tensor::WeightType::f32;
  tensor::WeightType down_type = tensor::WeightType::f32;
};

struct GateRow {
  LayerKey key;
  std::uint32_t num_experts = 0;
  std::uint32_t d_model = 0;
  std::uint64_t approx_bytes = 0;
};

struct ExpertStatusAnswer {
  std::vector<ExpertRow> experts;
  std::vector<GateRow> gates;
  std::uint64_t total_bytes = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_budget_bytes = 0;
  std::uint64_t memory_experts = 0;
  std::uint64_t disk_experts = 0;
  std::string compute_backend;
  bool gpu = false;
  std::uint64_t evicted_to_disk = 0;
  std::uint64_t evicted_dropped = 0;
  std::uint64_t admissions_over_budget = 0;
  std::uint32_t measured_tps = 0;
  /// Experts that requests asked for: found in memory, not found, read back from disk since.
  std::uint64_t memory_hits = 0;
  std::uint64_t memory_misses = 0;
  std::uint64_t promoted_to_memory = 0;
};

/// "model_id", "layer", ("expert"), "removed"
struct UnloadAnswer {
  LayerKey key;
  std::optional<ExpertIndex> expert;
  bool removed = false;
};

struct WeightedSlot {
  ExpertIndex expert = 0;
  float weight = 0;
};

/// Tokens' slots, flat: token t has slots [t * slots_per_token, (t+1) * slots_per_token).
struct RoutedTokens {
  std::uint32_t tokens = 0;
  std::uint32_t slots_per_token = 0;
  std::vector<WeightedSlot> slots;
};

struct RouteAnswer {
  LayerKey key;
  std::uint32_t top_k = 0;
  RoutedTokens routed;
};

struct ExecuteAnswer {
  ExpertKey key;
  std::uint32_t d_model = 0;
  std::vector<std::uint32_t> token_indices;
  BufferRef outputs;
  std::optional<std::string> receipt_json;                  ///< "receipt", a complete JSON value
  std::optional<std::string> receipt2_json = std::nullopt;  ///< "receipt2", version 2
};

struct MissingExpert {
  ExpertSlot slot;
  std::vector<std::uint32_t> tokens;
};

struct ForwardAnswer {
  LayerKey key;
  std::uint32_t d_model = 0;
  std::uint32_t top_k = 0;
  std::uint32_t tokens = 0;
  std::uint32_t batches = 0;
  std::uint32_t replans = 0;
  std::vector<MissingExpert> missing;
  std::uint32_t transports_local = 0;  ///< "transports": {local, iroh, http}
  std::uint32_t transports_iroh = 0;
  std::uint32_t transports_http = 0;
  RoutedTokens routed;
  BufferRef outputs;
  std::string carrier;  ///< additive: "dense" | "q8"
  std::string profile;  ///< additive: "exact" | "fast"
};

enum class PrepareState : std::uint8_t {
  running,
  completed,
  failed,
  cancelled,
  waiting  ///< for what the checkpoint says of itself
};

struct PrepareStartedAnswer {
  std::string job_id;
  LayerKey key;
  std::uint32_t total_experts = 0;  ///< 0 while the job waits
  bool include_gate = true;
  PrepareState state = PrepareState::running;  ///< or waiting
  std::string quant_json;                      ///< "quant": echo or null
  /// Of a job of several layers: "layer" is their list.
  std::vector<LayerIndex> layers = {};
};

struct PreparedBlob {
  LayerIndex layer = 0;
  ExpertIndex expert = 0;
  std::string uri;
  std::uint64_t bytes = 0;
  std::optional<tensor::WeightType>
      quant;  ///< what was really encoded, coarsest; omitted when dense
  std::optional<tensor::WeightType> gate_type;
  tensor::WeightType up_type = tensor::WeightType::f32;
  tensor::WeightType down_type = tensor::WeightType::f32;
};

/// How fast a job gets on, and how long it will take.
struct PrepareProgress {
  std::uint64_t bytes_read = 0;       ///< of the checkpoint, in this life of the node
  std::uint64_t bytes_wanted = 0;     ///< of the checkpoint, by this job; 0: not known yet
  std::uint64_t bytes_published = 0;  ///< of blobs
  std::uint64_t elapsed_ms = 0;       ///< in this life of the node
  std::optional<std::uint64_t> left_ms = std::nullopt;
  /// The server of the checkpoint wants to be left alone for so long.
  std::optional<std::uint64_t> rate_limit_ms = std::nullopt;
};

struct PrepareStatusAnswer {
  std::string job_id;
  LayerKey key;
  PrepareState state = PrepareState::running;
  std::optional<std::string> error;
  std::uint32_t total_experts = 0;
  std::vector<PreparedBlob> experts;
  std::optional<PreparedBlob> gate;  ///< {uri, bytes} or null; of a job of one layer
  /// Of a job of several layers: "layer" is their list, and "gates" is there.
  std::vector<LayerIndex> layers = {};
  std::vector<PreparedBlob> gates = {};
  PrepareProgress progress = {};
  /// Of a list or a summary, which have no experts and gates: how many there are.
  std::optional<std::uint32_t> completed_experts = std::nullopt;
  std::string source = {};
};

struct PrepareListAnswer {  // {jobs: [...], count}
  std::vector<PrepareStatusAnswer> jobs;
};

struct PrepareCancelAnswer {
  std::string job_id;
  bool cancelled = false;
};

struct PublishBlobAnswer {  // tenzro_uri, blake3_hex, size_bytes
  BlobHash hash{};
  std::uint64_t size_bytes = 0;
};

struct FetchBlobAnswer {  // bytes_b64
  BufferRef bytes;
};

struct EndpointInfoAnswer {  // endpoint_id and endpoint_id_hex, docs_enabled false
  EndpointId endpoint_id{};
  std::vector<std::string> alpns;
};

struct EndpointIdAnswer {  // endpoint_id
  EndpointId endpoint_id{};
};

struct AlpnListAnswer {  // alpns
  std::vector<std::string> alpns;
};

/// One known provider. Written as clients expect it: `capacity` {moe_holdings, moe_roles, moe_gpu,
/// active_requests, max_concurrent_requests}, `pricing`, and so on (src/rpc/provider_encoder.cpp).
struct ProviderRow {
  struct Holding {
    ExpertKey key;
    Residency residency = Residency::warm;
    std::optional<std::string> blob_uri;
  };

  ProviderAddress address{};
  std::string name;
  std::string software;
  bool is_self = false;
  bool is_suspect = false;  ///< "status": "suspect", else "draining", else "active"
  bool is_draining = false;
  std::optional<std::string> rpc_endpoint;
  std::optional<std::string> endpoint_id;
  std::vector<std::string> addresses;
  std::vector<Holding> holdings;
  std::vector<std::string> roles;
  bool has_gpu = false;
  std::vector<std::string> profiles;
  std::uint32_t committed_tps = 0;
  std::uint32_t active_requests = 0;
  std::uint32_t max_concurrent_requests = 0;
  std::uint64_t price_per_input_token = 0;
  std::uint64_t minimum_price = 0;
  std::int64_t reputation = 0;
  /// Unix time, by this node's clock at its start; null where it is not quarantined.
  std::optional<std::uint64_t> quarantined_until_ms;
  /// Milliseconds since its newest beat was made; null for this node.
  std::optional<std::uint64_t> last_seen_ms;
  /// This node's wall clock minus the provider's, at least, with the way of its beats; null for
  /// this node.
  std::optional<std::int64_t> clock_lag_ms;
};

/// An array of rows, in address order.
struct ListProvidersAnswer {
  std::vector<ProviderRow> providers;
};

/// How far a drain has come.
struct DrainProgress {
  std::uint64_t requests = 0;   ///< in progress, of callers and of peers
  std::uint64_t only_here = 0;  ///< experts that no other node holds
  std::uint64_t movable = 0;    ///< of those: which others can fetch
  std::uint64_t elapsed_s = 0;
  std::uint64_t left_s = 0;  ///< until it ends anyhow
};

struct NodeStatusAnswer {
  std::string version;
  std::string name;
  EndpointId endpoint_id{};
  ProviderAddress provider{};
  std::string rpc_address;
  std::string quic_address;
  std::uint64_t uptime_s = 0;
  std::uint32_t peers = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_budget_bytes = 0;
  std::uint64_t experts = 0;
  std::uint64_t gates = 0;
  std::uint64_t queue_depth = 0;
  std::uint64_t queue_max = 0;
  std::string compute_backend;
  std::string profile;
  std::uint32_t threads = 0;
  bool draining = false;
  std::optional<DrainProgress> drain;  ///< after tenzro_nodeDrain
  std::uint64_t forwards = 0;
  std::uint64_t forward_p50_us = 0;
  std::uint64_t forward_p99_us = 0;
  std::uint64_t memory_experts = 0;
  std::uint64_t memory_hits = 0;
  std::uint64_t memory_misses = 0;
  std::uint64_t promoted_to_memory = 0;
  std::uint64_t evicted_to_disk = 0;
  std::uint32_t measured_tps = 0;
  /// Jobs of experts under way, and what one row through one expert took over the last minute.
  std::uint64_t expert_jobs = 0;
  std::uint64_t row_time_ns = 0;
};

struct NodeDrainAnswer {
  bool draining = true;
};

/// The OpenRPC document; `rpc` gives it itself.
struct DiscoverAnswer {};

using Answer =
    std::variant<ShardMapAnswer, PlanDispatchAnswer, Policy, CatalogShapeAnswer,
                 ModelMetadataAnswer, ExpertRow, GateRow, UnloadAnswer, ExpertStatusAnswer,
                 RouteAnswer, ForwardAnswer, ExecuteAnswer, PrepareStartedAnswer,
                 PrepareStatusAnswer, PrepareListAnswer, PrepareCancelAnswer, PublishBlobAnswer,
                 FetchBlobAnswer, EndpointInfoAnswer, EndpointIdAnswer, AlpnListAnswer,
                 ListProvidersAnswer, NodeStatusAnswer, NodeDrainAnswer, DiscoverAnswer>;

}  // namespace tenzro::rpc
