#pragma once
/// \file
/// Typed JSON-RPC requests: what is left of a request once its envelope, types, ranges and payload
/// lengths are right.
///
/// Rules
///  - A call's own shape is already checked (docs/rpc.md gives each error): integers in range,
///  base64 decoded,
///    payload lengths equal tokens x d_model, values finite. What is loaded, and whether it fits,
///    is the node's to check.
///  - An optional parameter that was absent or null is an empty optional.
///  - Tensors are f32, little-endian, row-major, in a BufferRef; 64-byte aligned at their start.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/tensor/block.hpp"

namespace tenzro::rpc {

/// f32 rows of one width.
struct Rows {
  std::uint32_t count = 0;
  std::uint32_t width = 0;
  BufferRef data;
};

struct ExpertSlot {
  LayerIndex layer = 0;
  ExpertIndex expert = 0;
  friend auto operator<=>(const ExpertSlot&, const ExpertSlot&) = default;
};

enum class CarrierChoice : std::uint8_t { automatic, dense, q8 };

struct ShardMapCall {
  ModelId model;
};

struct TokenRouting {
  std::uint32_t token_index = 0;
  std::vector<ExpertSlot> experts;
};

struct PlanDispatchCall {
  ModelId model;
  std::vector<TokenRouting> routings;
  std::optional<bool> allow_cold;
};

struct ReplicationPolicyCall {};

struct CatalogShapeCall {
  ModelId model;
};

struct ModelMetadataCall {
  ModelId model;
};

/// `blob` holds the decoded inline bytes where `has_inline`; otherwise `uri` is present.
struct ExpertLoadCall {
  ExpertKey key;
  bool has_inline = false;
  BufferRef blob;
  std::optional<std::string> uri;
};

struct GateLoadCall {
  LayerKey key;
  bool has_inline = false;
  BufferRef blob;
  std::optional<std::string> uri;
};

struct ExpertUnloadCall {
  ExpertKey key;
};

struct GateUnloadCall {
  LayerKey key;
};

struct ExpertStatusCall {};

struct RouteCall {
  LayerKey key;
  std::uint32_t d_model = 0;
  Rows hidden;
  std::optional<std::uint32_t> top_k;  ///< >= 1
  /// Any number of them: a plain gate ignores them, so only a gate that routes by token id can say
  /// what is wrong.
  std::optional<std::vector<std::int64_t>> token_ids;
  /// Where the router reads another tensor than the experts do; same shape as `hidden`.
  std::optional<Rows> router_hidden;
};

struct ForwardCall {
  RouteCall route;
  std::optional<bool> allow_cold;
  bool allow_partial = false;
  std::optional<CarrierChoice> carrier;  ///< absent: the node's configuration
  std::optional<compute::Profile> profile;
};

/// `hidden` holds f32 rows; `carrier` is the bytes as received (f32 or Q8_0 blocks), which the
/// receipt hashes.
struct ExecuteCall {
  ExpertKey key;
  std::uint32_t d_model = 0;
  std::vector<std::uint32_t> token_indices;
  bool is_q8 = false;
  BufferRef carrier;
  Rows hidden;
  std::optional<compute::Profile> profile;
  /// Asks for a receipt of version 2 as well, where the caller is a known endpoint.
  std::optional<std::array<std::uint8_t, 16>> nonce;
};

/// Per projection; an empty entry keeps that projection dense.
struct QuantPlan {
  std::optional<tensor::WeightType> gate;
  std::optional<tensor::WeightType> up;
  std::optional<tensor::WeightType> down;
  /// The `quant` parameter as it was sent, as JSON text, to be echoed.
  std::string echo_json;
};

struct PrepareExpertsCall {
  ModelId model;
  /// The first of `layers`, where there are any.
  LayerIndex layer = 0;
  std::optional<std::vector<ExpertIndex>> experts;
  bool include_gate = true;
  std::optional<QuantPlan> quant;
  bool strict = false;
  /// Dense FP8/FP4/int4 sources become F32 instead of BF16.
  bool dense_f32 = false;
  /// A GGUF file with the importance of columns, in the source's folder.
  std::optional<std::string> imatrix = std::nullopt;
  /// A directory, a .safetensors or .gguf file, `file://` of these, or an https:// base. Absent:
  /// the catalogue's repository.
  std::optional<std::string> source;
  /// Several layers, ascending and distinct; empty: `layer` alone.
  std::vector<LayerIndex> layers = {};
  /// Every layer that has experts, multi-token-prediction layers aside.
  bool has_all_layers = false;
  /// Also load what is published.
  bool loads = false;
};

struct PrepareStatusCall {
  std::string job_id;
  /// Without the blobs.
  bool is_summary = false;
};

struct PrepareListCall {};

struct PrepareCancelCall {
  std::string job_id;
};

/// Goes on with a job that failed or was cancelled.
struct PrepareResumeCall {
  std::string job_id;
};

struct PublishBlobCall {
  BufferRef bytes;
};

struct FetchBlobCall {
  std::string uri;
};

struct EndpointInfoCall {};  ///< tenzro_iroh_getInfo

struct EndpointIdCall {};  ///< tenzro_iroh_getEndpointId

struct AlpnListCall {};  ///< tenzro_iroh_listAlpns

struct ListProvidersCall {};

struct NodeStatusCall {};

struct NodeDrainCall {
  /// How long others may take over what only this node holds; absent: the node's own limit.
  std::optional<std::uint32_t> limit_s;
};

/// rpc.discover. Exchange answers it itself: take_call never gives one.
struct DiscoverCall {};

using Call =
    std::variant<ShardMapCall, PlanDispatchCall, ReplicationPolicyCall, CatalogShapeCall,
                 ModelMetadataCall, ExpertLoadCall, GateLoadCall, ExpertUnloadCall, GateUnloadCall,
                 ExpertStatusCall, RouteCall, ForwardCall, ExecuteCall, PrepareExpertsCall,
                 PrepareStatusCall, PrepareListCall, PrepareCancelCall, PublishBlobCall,
                 FetchBlobCall, EndpointInfoCall, EndpointIdCall, AlpnListCall, ListProvidersCall,
                 NodeStatusCall, NodeDrainCall, DiscoverCall, PrepareResumeCall>;

}  // namespace tenzro::rpc
