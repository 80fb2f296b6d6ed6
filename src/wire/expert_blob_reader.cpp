#include <array>
#include <utility>

#include "tenzro/wire/expert_blob.hpp"

#include "ffn_spec.hpp"
#include "tensor_reader.hpp"

namespace tenzro::wire {
namespace {

using compute::MatrixView;

constexpr std::string_view kInward = "[d_ff, d_model]";
constexpr std::string_view kOutward = "[d_model, d_ff]";

Status read_projections(const TensorReader& reader, compute::ExpertView& view) {
  const auto read = [&](std::string_view name, const WantedShape& wanted, MatrixView& out) {
    Result<MatrixView> matrix = reader.matrix(name, wanted, Storage::dense_or_quantized);
    if (!matrix) return Status(tl::unexpect, std::move(matrix.error()));
    out = *matrix;
    return Status{};
  };
  // The first projection there is fixes d_ff and d_model, the others must fit.
  WantedShape inward{.text = kInward, .rows = std::nullopt, .cols = std::nullopt};
  if (view.spec.activation != compute::Activation::relu2) {
    view.gate.emplace();
    if (Status s = read("gate_proj.weight", inward, *view.gate); !s) return s;
    inward.rows = view.gate->rows;
    inward.cols = view.gate->cols;
  } else {
    // Weights that would never be used: whoever made the blob meant another activation.
    for (const std::string_view name : {"gate_proj.weight", "gate_proj.bias"}) {
      if (!reader.has(name)) continue;
      return fail(ErrorCode::runtime, "",
                  "tensor '" + std::string(name) + "' has no place in an expert of relu2");
    }
  }
  if (Status s = read("up_proj.weight", inward, view.up); !s) return s;
  const WantedShape outward{.text = kOutward, .rows = view.up.cols, .cols = view.up.rows};
  return read("down_proj.weight", outward, view.down);
}

Status read_biases(const TensorReader& reader, ExpertBlob& blob) {
  struct Bias {
    std::string_view name;
    std::uint32_t size;
  };

  const std::array<Bias, 3> biases{Bias{"gate_proj.bias", blob.view.d_ff()},
                                   Bias{"up_proj.bias", blob.view.d_ff()},
                                   Bias{"down_proj.bias", blob.view.d_model()}};
  for (std::size_t i = 0; i < biases.size(); ++i) {
    if (i == 0 && !blob.view.gate) continue;
    Result<std::vector<float>> values = reader.optional_vector(biases[i].name, biases[i].size);
    if (!values) return fail(std::move(values.error()));
    blob.biases[i] = std::move(*values);
  }
  blob.view.gate_bias = blob.biases[0];
  blob.view.up_bias = blob.biases[1];
  blob.view.down_bias = blob.biases[2];
  return {};
}

}  // namespace

Result<ExpertBlob> parse_expert_blob(std::span<const std::byte> blob) {
  const Result<TensorReader> reader = TensorReader::open(blob);
  if (!reader) return fail(reader.error());
  ExpertBlob expert;
  if (const std::string* text = reader->metadata(kFfnKey)) {
    const Result<compute::FfnSpec> spec = parse_ffn_spec(*text);
    if (!spec) return fail(spec.error());
    expert.view.spec = *spec;
  }
  if (Status status = read_projections(*reader, expert.view); !status) return fail(status.error());
  if (Status status = read_biases(*reader, expert); !status) return fail(status.error());
  return expert;
}

std::optional<tensor::WeightType> coarsest_quant(const compute::ExpertView& view) {
  using tensor::WeightType;
  // Coarsest first.
  for (const WeightType type : {WeightType::q4_k, WeightType::q6_k, WeightType::q8_0}) {
    const bool is_present =
        (view.gate && view.gate->type == type) || view.up.type == type || view.down.type == type;
    if (is_present) return type;
  }
  return std::nullopt;
}

}  // namespace tenzro::wire
