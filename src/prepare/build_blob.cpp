#include "tenzro/prepare/build_blob.hpp"

#include <algorithm>
#include <array>

#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/wire/gate_blob.hpp"

#include "encode_matrix.hpp"

namespace tenzro::prepare {
namespace {

using tensor::WeightType;

BufferRef to_buffer(const std::vector<std::byte>& bytes) {
  return BufferRef::copy_of(bytes);
}

/// Importance of a matrix's columns; empty where there is none.
Result<std::vector<float>> importance_of(const std::optional<work::SourceImportance>& source,
                                         std::span<const BufferRef> parts,
                                         const std::string& label) {
  if (!source) return std::vector<float>();
  auto weights = decode_values(source->sums, parts, label);
  if (!weights) return weights;
  const auto count = decode_values(source->count, parts, label);
  if (!count) return fail(count.error());
  if (std::any_of(weights->begin(), weights->end(), [](float sum) { return sum < 0; })) {
    return fail(ErrorCode::runtime, label,
                "tensor '" + source->sums.tensor + "' has a negative value");
  }
  // Experts that calibration never reached: the file says nothing of them.
  const float tokens = count->front();
  for (float& weight : *weights) weight = tokens > 0 ? weight / tokens : 1.0F;
  return weights;
}

/// The matrices of one expert while its blob is made.
struct ExpertParts {
  std::optional<EncodedMatrix> gate;
  EncodedMatrix up;
  EncodedMatrix down;
  std::array<std::vector<float>, 3> biases;
};

Result<ExpertParts> encode_expert(const work::BuildExpertBlob& job, const Encoders& encoders) {
  const EncodeOptions options{job.label, job.strict, job.dense_f32};
  const auto encode = [&](const work::SourceMatrix& matrix, std::optional<WeightType> quant,
                          const std::vector<float>& importance) {
    return encode_matrix(matrix, job.parts, quant, importance, options, encoders);
  };
  const auto importance_in = importance_of(job.importance_in, job.parts, job.label);
  if (!importance_in) return fail(importance_in.error());
  const auto importance_down = importance_of(job.importance_down, job.parts, job.label);
  if (!importance_down) return fail(importance_down.error());
  ExpertParts parts;
  if (job.gate) {
    auto gate = encode(*job.gate, job.gate_quant, *importance_in);
    if (!gate) return fail(gate.error());
    parts.gate = std::move(*gate);
  }
  auto up = encode(job.up, job.up_quant, *importance_in);
  if (!up) return fail(up.error());
  parts.up = std::move(*up);
  auto down = encode(job.down, job.down_quant, *importance_down);
  if (!down) return fail(down.error());
  parts.down = std::move(*down);
  const std::optional<work::SourceMatrix>* biases[] = {&job.gate_bias, &job.up_bias,
                                                       &job.down_bias};
  for (std::size_t i = 0; i < parts.biases.size(); ++i) {
    auto values = decode_values(*biases[i], job.parts, job.label);
    if (!values) return fail(values.error());
    parts.biases.at(i) = std::move(*values);
  }
  return parts;
}

/// Ids of a hash table. Whether they are in range and distinct the blob's own check says.
Result<std::vector<std::uint32_t>> read_table(const work::SourceMatrix& table,
                                              std::span<const BufferRef> parts,
                                              const std::string& label) {
  const std::size_t size = bytes_of(std::get<tensor::DType>(table.storage));
  const std::span<const std::byte> bytes = parts[table.values].bytes();
  std::vector<std::uint32_t> ids(std::size_t{table.rows} * table.cols);
  if (bytes.size() != ids.size() * size) {
    return fail(ErrorCode::runtime, label,
                "tensor '" + table.tensor + "' gave " + std::to_string(bytes.size()) +
                    " bytes, expected " + std::to_string(ids.size() * size));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::byte* at = bytes.data() + i * size;
    const std::uint64_t id = size == 8 ? load_u64_le(at) : load_u32_le(at);
    if (id > UINT32_MAX) {  // negative ids are large ones here
      return fail(ErrorCode::runtime, label,
                  "tensor '" + table.tensor + "' row " + std::to_string(i / table.cols) +
                      " names no expert");
    }
    ids[i] = static_cast<std::uint32_t>(id);
  }
  return ids;
}

/// Keeps the matrices of a gate alive while its blob is made, and the first error.
class GateParts {
 public:
  explicit GateParts(const work::BuildGateBlob& job) : job_(job) {}

  void matrix(const std::optional<work::SourceMatrix>& source,
              std::optional<compute::MatrixView>& to) {
    if (!source || error_) return;
    // Gates hold no blocks.
    const bool is_block = std::holds_alternative<tensor::GgmlType>(source->storage);
    const auto wanted = is_block ? std::optional(WeightType::f32) : std::nullopt;
    auto made =
        encode_matrix(*source, job_.parts, wanted, {}, {.label = job_.label}, {serial_, encoder_});
    if (!made) {
      error_ = made.error();
      return;
    }
    to = made->view;
    kept_.push_back(std::move(made->bytes));
  }

  void vector(const std::optional<work::SourceMatrix>& source, std::vector<float>& to) {
    auto values = decode_values(source, job_.parts, job_.label);
    if (values) {
      to = std::move(*values);
    } else if (!error_) {
      error_ = values.error();
    }
  }

  void table(wire::GateBlob& gate) {
    if (!job_.table || error_) return;
    auto ids = read_table(*job_.table, job_.parts, job_.label);
    if (!ids) {
      error_ = ids.error();
      return;
    }
    gate.tid2eid = std::move(*ids);
    gate.tid2eid_top_k = job_.table->cols;
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const work::BuildGateBlob& job_;
  compute::SerialExecutor serial_;
  tensor::RowEncoder encoder_;
  std::vector<BufferRef> kept_;
  std::optional<Error> error_;
};

}  // namespace

Result<work::BuiltExpertBlob> build_expert_blob(const work::BuildExpertBlob& job,
                                                compute::Executor& executor,
                                                const tensor::RowEncoder& encoder) {
  const auto parts = encode_expert(job, {executor, encoder});
  if (!parts) return fail(parts.error());
  work::BuiltExpertBlob built;
  compute::ExpertView view{.spec = job.spec};
  if (parts->gate) {
    view.gate = parts->gate->view;
    built.gate_type = view.gate->type;
  }
  view.up = parts->up.view;
  view.down = parts->down.view;
  view.gate_bias = parts->biases[0];
  view.up_bias = parts->biases[1];
  view.down_bias = parts->biases[2];
  built.up_type = view.up.type;
  built.down_type = view.down.type;
  built.blob = to_buffer(wire::make_expert_blob(view));
  return built;
}

Result<work::BuiltGateBlob> build_gate_blob(const work::BuildGateBlob& job) {
  GateParts parts(job);
  wire::GateBlob gate;
  gate.spec = job.spec;
  gate.num_experts = job.weight.rows;
  gate.d_model = job.weight.cols;
  std::optional<compute::MatrixView> router;
  parts.matrix(job.weight, router);
  parts.vector(job.bias, gate.bias);
  parts.vector(job.per_expert_scale, gate.per_expert_scale);
  parts.vector(job.input_scale, gate.input_scale);
  parts.matrix(job.shared_gate, gate.shared_gate);
  parts.matrix(job.latent_down, gate.latent_down);
  parts.vector(job.latent_norm, gate.latent_norm);
  parts.matrix(job.latent_up, gate.latent_up);
  parts.table(gate);
  if (parts.error()) return fail(*parts.error());
  gate.router = *router;
  for (float& scale : gate.input_scale) scale *= job.input_scale_factor;
  work::BuiltGateBlob built{to_buffer(wire::make_gate_blob(gate))};
  // What a holder would refuse is refused here, where the checkpoint can be named.
  if (const auto parsed = wire::parse_gate_blob(built.blob.bytes()); !parsed) {
    return fail(ErrorCode::runtime, job.label, parsed.error().message());
  }
  return built;
}

}  // namespace tenzro::prepare
