// Goal: both tiny trained checkpoints become, under every preset, blobs whose bytes are those of
// the reference quantiser and whose layers stay within what that quantiser loses. Method: the
// layer's tensors out of the shards; blobs against encode_row of each row; the traced inputs
// through naive experts over the parsed blobs against the traced outputs.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/routing/route.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "support/naive_layer.hpp"
#include "support/tensor_table.hpp"
#include "unit/prepare/source_file.hpp"

namespace tenzro::prepare {
namespace {

using tensor::WeightType;
using testing::FileTensors;
using testing::SourceFile;
using testing::TensorTable;

struct Preset {
  const char* name;
  std::optional<WeightType> in;
  std::optional<WeightType> down;
};

constexpr Preset kPresets[] = {{"dense", std::nullopt, std::nullopt},
                               {"q8_0", WeightType::q8_0, WeightType::q8_0},
                               {"q4_k", WeightType::q4_k, WeightType::q4_k},
                               {"q6_k", WeightType::q6_k, WeightType::q6_k},
                               {"q4_k_m", WeightType::q4_k, WeightType::q6_k}};

struct Traced {
  const char* model;
  LayerIndex layer;
  Preset preset;
};

void PrintTo(const Traced& one, std::ostream* out) {
  *out << one.model << " layer " << one.layer << " " << one.preset.name;
}

std::vector<Traced> traced() {
  std::vector<Traced> all;
  for (const Preset& preset : kPresets) {
    all.push_back({"tiny-qwen3-moe", 0, preset});
    all.push_back({"tiny-qwen3-moe", 1, preset});
    all.push_back({"tiny-deepseek-v3", 1, preset});
    all.push_back({"tiny-deepseek-v3", 2, preset});
  }
  return all;
}

class TinyModels : public ::testing::TestWithParam<Traced> {
 protected:
  TinyModels()
      : folder_(std::string(TENZRO_TEST_DATA) + "/models/" + GetParam().model + "/"),
        prefix_("model.layers." + std::to_string(GetParam().layer) + ".mlp."),
        shards_({folder_ + "model-00001-of-00003.safetensors",
                 folder_ + "model-00002-of-00003.safetensors",
                 folder_ + "model-00003-of-00003.safetensors"}),
        file_(layer_tensors()) {
    const auto config = testing::read_file(folder_ + "config.json");
    checkpoint_ = testing::checkpoint_of(
        {static_cast<const char*>(static_cast<const void*>(config.data())), config.size()});
  }

  /// The layer's tensors as one file: where shards were does not matter here.
  [[nodiscard]] FileTensors layer_tensors() const {
    FileTensors tensors;
    for (const std::string& name : shards_.names(prefix_)) {
      const auto bytes = shards_.bytes(name);
      tensors[name] = {
          shards_.info(name).dtype, shards_.info(name).shape, {bytes.begin(), bytes.end()}};
    }
    return tensors;
  }

  [[nodiscard]] Result<work::BuiltExpertBlob> build(ExpertIndex expert) const {
    return file_.expert(checkpoint_, GetParam().layer, expert, [](work::BuildExpertBlob& job) {
      job.gate_quant = job.up_quant = GetParam().preset.in;
      job.down_quant = GetParam().preset.down;
      job.strict = true;
    });
  }

  [[nodiscard]] std::string tensor_name(ExpertIndex expert, const std::string& projection) const {
    const std::string block = expert < checkpoint_.num_experts ? "experts." + std::to_string(expert)
                                                               : std::string("shared_experts");
    return prefix_ + block + "." + projection + ".weight";
  }

  /// The bytes the projection must have, and what was lost on the way to them.
  void expect_projection(const compute::MatrixView& got, const std::string& name,
                         std::optional<WeightType> quant) {
    ASSERT_EQ(got.type, quant.value_or(WeightType::bf16)) << name;
    const std::vector<float> values = shards_.floats(name);
    std::vector<std::byte> expected(got.bytes.size() / got.rows);
    std::vector<float> back(got.cols);
    double lost = 0;
    double all = 0;
    for (std::uint32_t row = 0; row < got.rows; ++row) {
      const auto from = std::span(values).subspan(std::size_t{row} * got.cols, got.cols);
      encode_row(got.type, from, expected);
      const auto bytes = got.row(row);
      ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()))
          << name << " row " << row;
      decode_row(got.type, bytes, back);
      for (std::size_t i = 0; i < back.size(); ++i) {
        lost += std::pow(static_cast<double>(back[i]) - static_cast<double>(from[i]), 2);
        all += std::pow(static_cast<double>(from[i]), 2);
      }
    }
    loss_ = std::max(loss_, std::sqrt(lost / all));
  }

  std::string folder_;
  std::string prefix_;
  TensorTable shards_;
  SourceFile file_;
  Checkpoint checkpoint_;
  double loss_ = 0;  ///< largest relative error of a projection
};

/// Root of the squares' sum of the difference, over that of `expected`.
double relative_l2(std::span<const float> got, std::span<const float> expected) {
  double lost = 0;
  double all = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    lost += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
    all += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(lost / all);
}

TEST_P(TinyModels, BlobsHaveTheReferencesBytesAndTheLayerItsOutput) {
  std::vector<BufferRef> blobs;
  std::vector<wire::ExpertBlob> parsed;
  std::vector<compute::ExpertView> experts;
  for (ExpertIndex e = 0; e < checkpoint_.expert_ids(); ++e) {
    const auto built = build(e);
    ASSERT_TRUE(built) << built.error().message();
    blobs.push_back(built->blob);
    auto blob = wire::parse_expert_blob(blobs.back().bytes());
    ASSERT_TRUE(blob) << blob.error().message();
    expect_projection(*blob->view.gate, tensor_name(e, "gate_proj"), GetParam().preset.in);
    expect_projection(blob->view.up, tensor_name(e, "up_proj"), GetParam().preset.in);
    expect_projection(blob->view.down, tensor_name(e, "down_proj"), GetParam().preset.down);
    parsed.push_back(std::move(*blob));
  }
  for (const wire::ExpertBlob& one : parsed) experts.push_back(one.view);
  const auto gate_blob = file_.gate(checkpoint_, GetParam().layer);
  ASSERT_TRUE(gate_blob) << gate_blob.error().message();
  const auto gate = wire::parse_gate_blob(gate_blob->blob.bytes());
  ASSERT_TRUE(gate) << gate.error().message();
  const routing::Router router(*gate);
  const TensorTable trace({folder_ + "trace_public.safetensors"});
  const std::string at = "prompt0.layers." + std::to_string(GetParam().layer) + ".";
  const std::vector<float> input = trace.floats(at + "moe_input");
  const auto routed =
      routing::route(router, {.logits = testing::naive_logits(*gate, input),
                              .tokens = static_cast<std::uint32_t>(input.size() / router.d_model()),
                              .top_k = router.default_top_k().value_or(0)});
  ASSERT_TRUE(routed) << routed.error().message();
  const std::vector<float> output =
      testing::naive_output({.gate = *gate, .experts = experts}, input, *routed);
  const double error = relative_l2(output, trace.floats(at + "moe_output"));
  // Three projections lose independently: about the root of three times what one loses.
  EXPECT_LT(error, GetParam().preset.in ? 2 * loss_ : 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Presets, TinyModels, ::testing::ValuesIn(traced()), [](const auto& one) {
  std::string name = std::string(one.param.model) + "_layer" + std::to_string(one.param.layer) +
                     "_" + one.param.preset.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace tenzro::prepare
