#include "tenzro/rpc/answer_size.hpp"

#include <concepts>

namespace tenzro::rpc {
namespace {

/// What the rows of replies usually take.
constexpr std::size_t kFewMembers = 1024;
constexpr std::size_t kNumberBytes = 7;
constexpr std::size_t kSlotBytes = 48;
constexpr std::size_t kHolderBytes = 280;
constexpr std::size_t kExpertRowBytes = 400;
constexpr std::size_t kGateRowBytes = 120;
constexpr std::size_t kBlobRowBytes = 220;
constexpr std::size_t kProviderBytes = 900;
constexpr std::size_t kHoldingBytes = 170;
constexpr std::size_t kDocumentBytes = 64UL << 10U;

std::size_t base64_bytes(const BufferRef& tensor) {
  return tensor.size() / 3 * 4 + 4;
}

std::size_t size_of(const RoutedTokens& routed) {
  return routed.slots.size() * kSlotBytes + std::size_t{routed.tokens} * kSlotBytes / 2;
}

std::size_t size_of(const PrepareStatusAnswer& job) {
  return kFewMembers + (job.experts.size() + job.gates.size()) * kBlobRowBytes +
         job.layers.size() * kNumberBytes;
}

std::size_t size_of(const ShardMapAnswer& map) {
  std::size_t bytes =
      (map.under_replicated_experts.size() + map.hot_experts.size()) * kSlotBytes / 2;
  for (const HeldExpert& held : map.holders)
    bytes += 2 * kSlotBytes + held.holders.size() * kHolderBytes;
  return bytes;
}

std::size_t size_of(const PlanDispatchAnswer& plan) {
  std::size_t bytes = 0;
  for (const PlannedBatch& batch : plan.batches)
    bytes += kHolderBytes + batch.token_indices.size() * kNumberBytes;
  for (const TokenAssignment& token : plan.token_assignments)
    bytes += kSlotBytes + token.slots.size() * (kSlotBytes + 2 * sizeof(ProviderAddress));
  return bytes;
}

std::size_t size_of(const ExpertStatusAnswer& status) {
  return status.experts.size() * kExpertRowBytes + status.gates.size() * kGateRowBytes;
}

std::size_t size_of(const RouteAnswer& route) {
  return size_of(route.routed);
}

std::size_t size_of(const ForwardAnswer& forward) {
  std::size_t bytes = size_of(forward.routed) + base64_bytes(forward.outputs);
  for (const MissingExpert& missing : forward.missing)
    bytes += kSlotBytes + missing.tokens.size() * kNumberBytes;
  return bytes;
}

std::size_t size_of(const ExecuteAnswer& execute) {
  return execute.token_indices.size() * kNumberBytes + base64_bytes(execute.outputs) +
         (execute.receipt_json ? execute.receipt_json->size() : 0) +
         (execute.receipt2_json ? execute.receipt2_json->size() : 0);
}

std::size_t size_of(const PrepareListAnswer& list) {
  std::size_t bytes = 0;
  for (const PrepareStatusAnswer& job : list.jobs) bytes += size_of(job);
  return bytes;
}

std::size_t size_of(const ListProvidersAnswer& list) {
  std::size_t bytes = 0;
  for (const ProviderRow& row : list.providers)
    bytes += kProviderBytes + row.holdings.size() * kHoldingBytes;
  return bytes;
}

std::size_t size_of(const ModelMetadataAnswer& metadata) {
  return metadata.json.size();
}

std::size_t size_of(const FetchBlobAnswer& blob) {
  return base64_bytes(blob.bytes);
}

std::size_t size_of(const DiscoverAnswer& /*answer*/) {
  return kDocumentBytes;
}

std::size_t size_of(const PrepareStartedAnswer& answer) {
  return answer.layers.size() * kNumberBytes;
}

template <typename T, typename... Types>
concept OneOf = (std::same_as<T, Types> || ...);

/// Answers of a few members. Named, so that a new answer says how large it is.
std::size_t size_of(
    const OneOf<Policy, CatalogShapeAnswer, ExpertRow, GateRow, UnloadAnswer, PrepareCancelAnswer,
                PublishBlobAnswer, EndpointInfoAnswer, EndpointIdAnswer, AlpnListAnswer,
                NodeStatusAnswer, NodeDrainAnswer> auto& /*answer*/) {
  return 0;
}

}  // namespace

std::size_t json_bytes(const Answer& answer) {
  return kFewMembers + std::visit([](const auto& one) { return size_of(one); }, answer);
}

}  // namespace tenzro::rpc
