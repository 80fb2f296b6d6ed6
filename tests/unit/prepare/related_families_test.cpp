// Goal: families that have no golden of their own give, under their real tensor names, the outputs
// that their formulas say.
// Method: Qwen3 Next and DiffusionGemma compute what Qwen3.5 and Gemma 4 do, so those goldens stand
// for them under their names and layouts; Kimi K2.5's int4 checkpoint is held against the formulas
// of its router and FFN, written out here in double.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/routing/route.hpp"
#include "tenzro/tensor/dtype.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "support/naive_layer.hpp"
#include "support/tensor_table.hpp"
#include "unit/prepare/prepared_layer.hpp"

namespace tenzro::prepare {
namespace {

using tensor::DType;
using testing::FamilyCase;
using testing::FileTensor;
using testing::FileTensors;
using testing::SourceFile;

const std::string kFolder = std::string(TENZRO_TEST_DATA) + "/router";

FileTensor copy_of(const testing::TensorTable& from, const std::string& name) {
  const auto bytes = from.bytes(name);
  return {from.info(name).dtype, from.info(name).shape, {bytes.begin(), bytes.end()}};
}

FileTensor rows_of(const compute::MatrixView& matrix) {
  EXPECT_EQ(matrix.type, tensor::WeightType::f32);
  return {DType::f32, {matrix.rows, matrix.cols}, {matrix.bytes.begin(), matrix.bytes.end()}};
}

/// Qwen3.5's layer as Qwen3 Next lays it out: a matrix an expert and projection.
FileTensors as_qwen3_next(const FamilyCase& golden, const std::string& to) {
  const std::string from = "model.language_model.layers.0.mlp.";
  FileTensors tensors;
  for (const std::string& name : golden.layer.tensors->names(from)) {
    const std::string tail = name.substr(from.size());
    if (!tail.starts_with("experts.")) tensors[to + tail] = copy_of(*golden.layer.tensors, name);
  }
  for (std::uint32_t e = 0; e < golden.layer.gate.num_experts; ++e) {
    const std::string expert = to + "experts." + std::to_string(e) + ".";
    const compute::ExpertView& view = golden.layer.experts[e];
    tensors[expert + "gate_proj.weight"] = rows_of(*view.gate);
    tensors[expert + "up_proj.weight"] = rows_of(view.up);
    tensors[expert + "down_proj.weight"] = rows_of(view.down);
  }
  return tensors;
}

TEST(RelatedFamilies, Qwen3NextIsQwen35UnderItsOwnNamesAndSoIsItsPredictionLayer) {
  const FamilyCase golden = testing::load_family_case("qwen3_5_moe", kFolder);
  const std::string config =
      R"({"model_type":"qwen3_next","hidden_size":32,"moe_intermediate_size":8,"num_experts":64,
          "shared_expert_intermediate_size":8,"num_experts_per_tok":8,"norm_topk_prob":true,
          "num_hidden_layers":48,"hidden_act":"silu","decoder_sparse_step":1,
          "mlp_only_layers":[])";
  const Checkpoint checkpoint = testing::checkpoint_of(config + "}");
  EXPECT_EQ(checkpoint.mtp_layers, 1U);  // which no key says
  const std::pair<const char*, LayerIndex> places[] = {{"model.layers.47.mlp.", 47},
                                                       {"mtp.layers.0.mlp.", 48}};
  for (const auto& [prefix, layer] : places) {
    const SourceFile file(as_qwen3_next(golden, prefix));
    ASSERT_TRUE(checkpoint.check_layer(layer));
    const std::vector<float> output = testing::forward_prepared(file, checkpoint, layer, golden);
    EXPECT_LT(testing::relative_error(output, golden.output), 1e-4) << prefix;
  }
  EXPECT_FALSE(checkpoint.check_layer(49));
  const Checkpoint without = testing::checkpoint_of(config + R"(,"num_nextn_predict_layers":0})");
  EXPECT_FALSE(without.check_layer(48));
}

TEST(RelatedFamilies, DiffusionGemmaIsGemmaUnderTheDecodersNames) {
  const FamilyCase golden = testing::load_family_case("gemma4", kFolder);
  const std::string from = "model.language_model.layers.0.";
  FileTensors tensors;
  for (const std::string& name : golden.layer.tensors->names(from)) {
    tensors["model.decoder.layers.0." + name.substr(from.size())] =
        copy_of(*golden.layer.tensors, name);
  }
  const Checkpoint checkpoint = testing::checkpoint_of(
      R"({"model_type":"diffusion_gemma","text_config":{"model_type":"diffusion_gemma_text",
          "hidden_size":32,"moe_intermediate_size":8,"num_experts":128,"top_k_experts":8,
          "rms_norm_eps":1e-06,"hidden_activation":"gelu_pytorch_tanh","num_hidden_layers":30}})");
  const std::vector<float> output =
      testing::forward_prepared(SourceFile(tensors), checkpoint, 0, golden);
  EXPECT_LT(testing::relative_error(output, golden.output), 1e-4);
}

using Matrix = std::vector<std::vector<double>>;
using Row = std::vector<double>;

constexpr std::uint32_t kHidden = 64;
constexpr std::uint32_t kFfn = 32;
constexpr std::uint32_t kExperts = 8;
constexpr std::uint32_t kTopK = 3;
constexpr std::uint32_t kGroup = 32;
constexpr double kScale = 2.827;
const std::string kLayer = "language_model.model.layers.1.mlp.";

struct Ffn {
  Matrix gate, up, down;
};

/// An int4 layer under Kimi K2.5's names, and its numbers.
struct KimiLayer {
  FileTensors tensors;
  std::vector<Ffn> experts;
  Ffn shared;
  Matrix router;
  Row bias;
};

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto raw = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

std::uint16_t bf16_of(double value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16U);
}

/// Eight values of -8 to 7 a word, the first in its lowest bits, and a scale for each 32.
Matrix add_int4(KimiLayer& layer, const std::string& stem, std::uint32_t rows, std::uint32_t cols,
                Prng& prng) {
  Matrix matrix(rows, Row(cols));
  FileTensor packed{DType::i32, {rows, cols / 8}, {}};
  FileTensor scales{DType::bf16, {rows, cols / kGroup}, {}};
  for (Row& row : matrix) {
    double scale = 0;
    for (std::uint32_t col = 0; col < cols; ++col) {
      if (col % kGroup == 0) {
        scale = static_cast<double>(1 + prng.below(100)) / 1024.0;  // exact in bf16
        append(scales.bytes, bf16_of(scale));
      }
      row[col] = scale * (static_cast<double>(prng.below(16)) - 8.0);
      if (col % 8 != 7) continue;
      std::uint32_t word = 0;
      for (std::uint32_t i = 0; i < 8; ++i) {
        const double q = row[col - 7 + i] / scale + 8.0;
        word |= static_cast<std::uint32_t>(std::lround(q)) << (4 * i);
      }
      append(packed.bytes, word);
    }
  }
  layer.tensors[stem + ".weight_packed"] = std::move(packed);
  layer.tensors[stem + ".weight_scale"] = std::move(scales);
  FileTensor shape{DType::i32, {2}, {}};
  append(shape.bytes, rows);
  append(shape.bytes, cols);
  layer.tensors[stem + ".weight_shape"] = std::move(shape);
  return matrix;
}

Matrix add_bf16(KimiLayer& layer, const std::string& name, std::uint32_t rows, std::uint32_t cols,
                Prng& prng) {
  Matrix matrix(rows, Row(cols));
  FileTensor dense{DType::bf16, {rows, cols}, {}};
  for (Row& row : matrix) {
    for (double& value : row) {
      value = (static_cast<double>(prng.below(201)) - 100.0) / 256.0;  // exact in bf16
      append(dense.bytes, bf16_of(value));
    }
  }
  layer.tensors[name] = std::move(dense);
  return matrix;
}

KimiLayer kimi_layer() {
  Prng prng(25);
  KimiLayer layer;
  layer.router = add_bf16(layer, kLayer + "gate.weight", kExperts, kHidden, prng);
  FileTensor bias{DType::f32, {kExperts}, {}};
  for (std::uint32_t e = 0; e < kExperts; ++e) {
    layer.bias.push_back(static_cast<double>(prng.below(64)) / 64.0 - 0.5);
    append(bias.bytes, static_cast<float>(layer.bias.back()));
  }
  layer.tensors[kLayer + "gate.e_score_correction_bias"] = std::move(bias);
  for (std::uint32_t e = 0; e < kExperts; ++e) {
    const std::string stem = kLayer + "experts." + std::to_string(e) + ".";
    layer.experts.push_back({add_int4(layer, stem + "gate_proj", kFfn, kHidden, prng),
                             add_int4(layer, stem + "up_proj", kFfn, kHidden, prng),
                             add_int4(layer, stem + "down_proj", kHidden, kFfn, prng)});
  }
  const std::string shared = kLayer + "shared_experts.";
  layer.shared = {add_bf16(layer, shared + "gate_proj.weight", kFfn, kHidden, prng),
                  add_bf16(layer, shared + "up_proj.weight", kFfn, kHidden, prng),
                  add_bf16(layer, shared + "down_proj.weight", kHidden, kFfn, prng)};
  return layer;
}

Row times(const Matrix& matrix, const Row& x) {
  Row y;
  for (const Row& row : matrix)
    y.push_back(std::inner_product(row.begin(), row.end(), x.begin(), 0.0));
  return y;
}

Row swiglu(const Ffn& ffn, const Row& x) {
  const Row gate = times(ffn.gate, x);
  Row inner = times(ffn.up, x);
  for (std::size_t i = 0; i < inner.size(); ++i) inner[i] *= gate[i] / (1.0 + std::exp(-gate[i]));
  return times(ffn.down, inner);
}

/// Sigmoid scores; the three best of score + bias; their scores over their sum, times the scale.
Row formula(const KimiLayer& layer, const Row& x) {
  Row scores = times(layer.router, x);
  for (double& score : scores) score = 1.0 / (1.0 + std::exp(-score));
  std::vector<std::uint32_t> order(kExperts);
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] + layer.bias[a] > scores[b] + layer.bias[b];
  });
  double sum = 0;
  for (std::uint32_t i = 0; i < kTopK; ++i) sum += scores[order[i]];
  Row y = swiglu(layer.shared, x);
  for (std::uint32_t i = 0; i < kTopK; ++i) {
    const Row one = swiglu(layer.experts[order[i]], x);
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += scores[order[i]] / sum * kScale * one[j];
  }
  return y;
}

/// What the prepared blobs of the layer make of the rows.
std::vector<float> prepared(const SourceFile& file, const Checkpoint& checkpoint,
                            const std::vector<float>& rows) {
  const auto gate_blob = file.gate(checkpoint, 1);
  if (!gate_blob) testing::stop(gate_blob.error().message());
  const auto gate = wire::parse_gate_blob(gate_blob->blob.bytes());
  if (!gate) testing::stop(gate.error().message());
  std::vector<BufferRef> blobs;
  std::vector<wire::ExpertBlob> parsed;
  for (ExpertIndex e = 0; e < checkpoint.expert_ids(); ++e) {
    auto blob =
        file.expert(checkpoint, 1, e, [](work::BuildExpertBlob& job) { job.dense_f32 = true; });
    if (!blob) testing::stop(blob.error().message());
    blobs.push_back(blob->blob);
    auto one = wire::parse_expert_blob(blobs.back().bytes());
    if (!one) testing::stop(one.error().message());
    parsed.push_back(std::move(*one));
  }
  std::vector<compute::ExpertView> views;
  for (const wire::ExpertBlob& one : parsed) views.push_back(one.view);
  const routing::Router router(*gate);
  const auto routed = routing::route(
      router, {.logits = testing::naive_logits(*gate, rows),
               .tokens = static_cast<std::uint32_t>(rows.size() / kHidden),
               .top_k = router.default_top_k().value_or(0),
               .token_ids = {},
               .shared_gate_logits = testing::naive_shared_gate_logits(*gate, rows)});
  if (!routed) testing::stop(routed.error().message());
  return testing::naive_output({.gate = *gate, .experts = views}, rows, *routed);
}

TEST(RelatedFamilies, KimiK25sInt4ExpertsGiveWhatItsFormulasSay) {
  const KimiLayer layer = kimi_layer();
  const Checkpoint checkpoint = testing::checkpoint_of(
      R"({"model_type":"kimi_k25","text_config":{"model_type":"kimi_k2","hidden_size":64,
          "moe_intermediate_size":32,"n_routed_experts":8,"num_experts_per_tok":3,"n_group":1,
          "topk_group":1,"routed_scaling_factor":2.827,"norm_topk_prob":true,
          "n_shared_experts":1,"num_hidden_layers":61,"first_k_dense_replace":1,
          "scoring_func":"sigmoid"}})");
  EXPECT_EQ(checkpoint.family->model_types, "kimi_k25");
  Prng prng(7);
  std::vector<float> rows;
  std::vector<float> expected;
  for (int token = 0; token < 6; ++token) {
    Row x;
    for (std::uint32_t i = 0; i < kHidden; ++i) {
      rows.push_back((static_cast<float>(prng.below(2001)) - 1000.0F) / 1000.0F);
      x.push_back(static_cast<double>(rows.back()));
    }
    for (const double y : formula(layer, x)) expected.push_back(static_cast<float>(y));
  }
  EXPECT_LT(
      testing::relative_error(prepared(SourceFile(layer.tensors), checkpoint, rows), expected),
      1e-5);
}

}  // namespace
}  // namespace tenzro::prepare
