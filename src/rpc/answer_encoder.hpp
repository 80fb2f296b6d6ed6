#pragma once
/// \file
/// Every answer as JSON. Keys are the field names of answer.hpp, in its order.
#include "tenzro/rpc/answer.hpp"

#include "json_writer.hpp"

namespace tenzro::rpc {

void encode_answer(JsonWriter& out, const Answer& answer);

// Shared by the files that implement it.
void encode(JsonWriter& out, const ShardMapAnswer& answer);
void encode(JsonWriter& out, const PlanDispatchAnswer& answer);
void encode(JsonWriter& out, const Policy& answer);
void encode(JsonWriter& out, const CatalogShapeAnswer& answer);
void encode(JsonWriter& out, const ModelMetadataAnswer& answer);
void encode(JsonWriter& out, const ExpertRow& answer);
void encode(JsonWriter& out, const GateRow& answer);
void encode(JsonWriter& out, const UnloadAnswer& answer);
void encode(JsonWriter& out, const ExpertStatusAnswer& answer);
void encode(JsonWriter& out, const RouteAnswer& answer);
void encode(JsonWriter& out, const ForwardAnswer& answer);
void encode(JsonWriter& out, const ExecuteAnswer& answer);
void encode(JsonWriter& out, const PrepareStartedAnswer& answer);
void encode(JsonWriter& out, const PrepareStatusAnswer& answer);
void encode(JsonWriter& out, const PrepareListAnswer& answer);
void encode(JsonWriter& out, const PrepareCancelAnswer& answer);
void encode(JsonWriter& out, const PublishBlobAnswer& answer);
void encode(JsonWriter& out, const FetchBlobAnswer& answer);
void encode(JsonWriter& out, const EndpointInfoAnswer& answer);
void encode(JsonWriter& out, const EndpointIdAnswer& answer);
void encode(JsonWriter& out, const AlpnListAnswer& answer);
void encode(JsonWriter& out, const ListProvidersAnswer& answer);
void encode(JsonWriter& out, const NodeStatusAnswer& answer);
void encode(JsonWriter& out, const NodeDrainAnswer& answer);
void encode(JsonWriter& out, const DiscoverAnswer& answer);

/// "weights": {gate: {type, bits}, up, down}; gate only where the expert has one.
void encode_weights(JsonWriter& out, const std::optional<tensor::WeightType>& gate,
                    tensor::WeightType up, tensor::WeightType down);
/// [{layer, expert}, ...]
void encode_slots(JsonWriter& out, std::string_view name, const std::vector<ExpertSlot>& slots);
/// [n, ...]
void encode_indices(JsonWriter& out, std::string_view name,
                    const std::vector<std::uint32_t>& indices);

}  // namespace tenzro::rpc
