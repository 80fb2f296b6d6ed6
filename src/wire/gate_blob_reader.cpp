#include <cstring>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/gate_blob.hpp"

#include "router_spec.hpp"
#include "tensor_reader.hpp"

namespace tenzro::wire {
namespace {

using compute::MatrixView;

constexpr std::string_view kTableName = "router.tid2eid";

Status read_router(const TensorReader& reader, GateBlob& gate) {
  const WantedShape wanted{
      .text = "[num_experts, d_model]", .rows = std::nullopt, .cols = std::nullopt};
  const Result<MatrixView> router = reader.matrix("router.weight", wanted, Storage::dense);
  if (!router) return fail(router.error());
  gate.router = *router;
  gate.num_experts = router->rows;
  gate.d_model = router->cols;
  return {};
}

Status read_vectors(const TensorReader& reader, GateBlob& gate) {
  const auto read = [&](std::string_view name, std::uint32_t size, std::vector<float>& out) {
    Result<std::vector<float>> values = reader.optional_vector(name, size);
    if (!values) return Status(tl::unexpect, std::move(values.error()));
    out = std::move(*values);
    return Status{};
  };
  if (Status s = read("router.bias", gate.num_experts, gate.bias); !s) return s;
  if (Status s = read("router.per_expert_scale", gate.num_experts, gate.per_expert_scale); !s) {
    return s;
  }
  return read("router.input_scale", gate.d_model, gate.input_scale);
}

Status read_spec(const TensorReader& reader, GateBlob& gate) {
  const std::string* text = reader.metadata(kRouterKey);
  Result<RouterSpec> spec =
      text != nullptr ? parse_router_spec(*text, gate.num_experts)
                      : legacy_router_spec(!gate.bias.empty(), reader.metadata(kLegacyScaleKey),
                                           reader.metadata(kLegacySharedKey));
  if (!spec) return fail(std::move(spec.error()));
  gate.spec = *spec;
  return {};
}

Status read_shared_gate(const TensorReader& reader, GateBlob& gate) {
  constexpr std::string_view kName = "shared_gate.weight";
  if (gate.spec.shared_gate == SharedGate::none && !reader.has(kName)) return {};
  const WantedShape wanted{.text = "[1, d_model]", .rows = 1, .cols = gate.d_model};
  const Result<MatrixView> weight = reader.matrix(kName, wanted, Storage::dense);
  if (!weight) return fail(weight.error());
  gate.shared_gate = *weight;
  return {};
}

/// All three tensors or none: each of them asks for the other two.
Status read_latent(const TensorReader& reader, GateBlob& gate) {
  const bool is_latent = reader.has("latent_down.weight") || reader.has("latent_norm.weight") ||
                         reader.has("latent_up.weight");
  if (!is_latent) return {};
  const WantedShape down{.text = "[latent, d_model]", .rows = std::nullopt, .cols = gate.d_model};
  const Result<MatrixView> latent_down = reader.matrix("latent_down.weight", down, Storage::dense);
  if (!latent_down) return fail(latent_down.error());
  Result<std::vector<float>> norm = reader.vector("latent_norm.weight", latent_down->rows);
  if (!norm) return fail(std::move(norm.error()));
  const WantedShape up{
      .text = "[d_model, latent]", .rows = gate.d_model, .cols = latent_down->rows};
  const Result<MatrixView> latent_up = reader.matrix("latent_up.weight", up, Storage::dense);
  if (!latent_up) return fail(latent_up.error());
  gate.latent_down = *latent_down;
  gate.latent_norm = std::move(*norm);
  gate.latent_up = *latent_up;
  return {};
}

tl::unexpected<Error> wrong_table(const std::string& why) {
  return fail(ErrorCode::runtime, "", "tensor '" + std::string(kTableName) + "' " + why);
}

/// Ids of the table, checked: in range, and distinct within a row.
Status fill_table(std::span<const std::byte> bytes, GateBlob& gate) {
  const std::size_t count = bytes.size() / sizeof(std::int64_t);
  gate.tid2eid.resize(count);
  /// Last row that named the expert, counted from 1: finds repetitions in one pass over the table.
  std::vector<std::size_t> last_row(gate.num_experts, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = i / gate.tid2eid_top_k;
    const std::uint64_t id = load_u64_le(bytes.data() + i * sizeof(std::int64_t));
    if (id >= gate.num_experts) {  // negative ids are large ones here
      return wrong_table("row " + std::to_string(row) + " names expert " +
                         std::to_string(static_cast<std::int64_t>(id)) + " of " +
                         std::to_string(gate.num_experts));
    }
    if (last_row[id] == row + 1) {
      return wrong_table("row " + std::to_string(row) + " names expert " + std::to_string(id) +
                         " twice");
    }
    last_row[id] = row + 1;
    gate.tid2eid[i] = static_cast<std::uint32_t>(id);
  }
  return {};
}

Status read_table(const TensorReader& reader, GateBlob& gate) {
  if (!reader.has(kTableName)) return {};
  const Result<const tensor::TensorInfo*> found = reader.find(kTableName);
  if (!found) return fail(found.error());
  const tensor::TensorInfo& info = **found;
  if (info.dtype != tensor::DType::i64) {
    return wrong_table("has unsupported dtype " + std::string(tensor::name_of(info.dtype)) +
                       " (want I64)");
  }
  const bool is_matrix = info.shape.size() == 2 && info.shape[0] != 0 && info.shape[1] != 0 &&
                         std::in_range<std::uint32_t>(info.shape[0]);
  if (!is_matrix) return wrong_shape(kTableName, info.shape, "[vocab, top_k]");
  if (info.shape[1] > gate.num_experts) {
    return wrong_table("names " + std::to_string(info.shape[1]) + " experts a row, there are " +
                       std::to_string(gate.num_experts));
  }
  gate.tid2eid_top_k = static_cast<std::uint32_t>(info.shape[1]);
  if (gate.spec.top_k.value_or(gate.tid2eid_top_k) != gate.tid2eid_top_k) {
    return wrong_shape(kTableName, info.shape, "[vocab, " + std::to_string(*gate.spec.top_k) + ']');
  }
  return fill_table(reader.bytes_of(info), gate);
}

}  // namespace

Result<GateBlob> parse_gate_blob(std::span<const std::byte> blob) {
  const Result<TensorReader> reader = TensorReader::open(blob);
  if (!reader) return fail(reader.error());
  GateBlob gate;
  // The router fixes the sizes, and the bias decides the legacy rule: hence the order.
  for (const auto step :
       {read_router, read_vectors, read_spec, read_shared_gate, read_latent, read_table}) {
    if (Status status = step(*reader, gate); !status) return fail(std::move(status.error()));
  }
  return gate;
}

}  // namespace tenzro::wire
