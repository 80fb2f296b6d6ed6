// Goal: a projection stored in any published number format becomes exactly the values that the
// publishers' own libraries decode, and a weight without its scale is never read.
// Method: the goldens of tests/data/formats are put under a family's tensor names.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/tensor/dtype.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "support/tensor_table.hpp"
#include "unit/prepare/source_file.hpp"

namespace tenzro::prepare {
namespace {

using tensor::DType;
using tensor::WeightType;
using testing::checkpoint_of;
using testing::FileTensor;
using testing::FileTensors;
using testing::SourceFile;
using testing::TensorTable;

const TensorTable& formats() {
  static const TensorTable table(
      {std::string(TENZRO_TEST_DATA) + "/formats/checkpoint_formats.safetensors"});
  return table;
}

FileTensor copy(const std::string& name) {
  const auto bytes = formats().bytes(name);
  const auto& info = formats().info(name);
  return {info.dtype, info.shape, {bytes.begin(), bytes.end()}};
}

FileTensor zeros(DType dtype, std::vector<std::uint64_t> shape) {
  std::uint64_t count = tensor::bytes_of(dtype);
  for (const std::uint64_t dimension : shape) count *= dimension;
  return {dtype, std::move(shape), std::vector<std::byte>(count)};
}

/// How a golden matrix is published: suffixes of its tensors, and what they are called there.
struct Stored {
  const char* title;
  const char* family;
  /// Of expert 0's up projection; "" = values stand under this very name.
  const char* stem;
  const char* golden;
  std::vector<std::pair<std::string, std::string>> tensors;
};

void PrintTo(const Stored& one, std::ostream* out) {
  *out << one.title;
}

const Stored kStored[] = {
    {"Fp8WithF32Scales",
     "deepseek_v3",
     "model.layers.0.mlp.experts.0.up_proj",
     "golden.fp8_block128.f32",
     {{".weight", "fp8_block128.weight"}, {".weight_scale_inv", "fp8_block128.weight_scale_inv"}}},
    {"Fp8WithE8M0Scales",
     "deepseek_v4",
     "layers.0.ffn.experts.0.w3",
     "golden.fp8_block128_ue8m0.f32",
     {{".weight", "fp8_block128_ue8m0.weight"}, {".scale", "fp8_block128_ue8m0.scale"}}},
    {"Fp4WithE8M0Scales",
     "deepseek_v4",
     "layers.0.ffn.experts.0.w3",
     "golden.fp4_e8m0_1x32.f32",
     {{".weight", "fp4_e8m0_1x32.weight"}, {".scale", "fp4_e8m0_1x32.scale"}}},
    {"Mxfp4PackQuantized",
     "kimi_k3",
     "language_model.model.layers.0.block_sparse_moe.experts.0.w3",
     "golden.mxfp4_packed.f32",
     {{".weight_packed", "mxfp4_packed.weight_packed"},
      {".weight_scale", "mxfp4_packed.weight_scale"}}},
    {"Int4PackQuantized",
     "kimi_k25",
     "language_model.model.layers.0.mlp.experts.0.up_proj",
     "golden.int4_packed.f32",
     {{".weight_packed", "int4_packed.weight_packed"},
      {".weight_scale", "int4_packed.weight_scale"}}},
};

std::string config_for(const Stored& stored, std::uint64_t ffn, std::uint64_t width) {
  const std::string family = stored.family;
  std::string text = R"({"model_type":")" + family + R"(","num_hidden_layers":1,"hidden_size":)" +
                     std::to_string(width) + R"(,"moe_intermediate_size":)" + std::to_string(ffn);
  if (family == "kimi_k3") {
    text += R"(,"num_experts":2,"num_experts_per_token":1,"num_shared_experts":0)"
            R"(,"routed_expert_hidden_size":)" +
            std::to_string(width);
  } else {
    text += R"(,"n_routed_experts":2,"num_experts_per_tok":1,"n_shared_experts":0)";
  }
  if (family == "deepseek_v4") text += R"(,"swiglu_limit":10.0)";
  return text + "}";
}

class Formats : public ::testing::TestWithParam<Stored> {
 protected:
  Formats()
      : shape_(formats().info(GetParam().golden).shape),
        checkpoint_(checkpoint_of(config_for(GetParam(), shape_[0], shape_[1]))) {}

  /// The stored matrix as expert 0's up projection; gate and down are plain zeros.
  [[nodiscard]] FileTensors tensors() const {
    FileTensors all;
    const std::string stem = GetParam().stem;
    for (const auto& [suffix, name] : GetParam().tensors) all[stem + suffix] = copy(name);
    const bool is_numbered = stem.ends_with("w3");
    const std::string start = stem.substr(0, stem.rfind('.') + 1);
    all[start + (is_numbered ? "w1" : "gate_proj") + ".weight"] =
        zeros(DType::bf16, {shape_[0], shape_[1]});
    all[start + (is_numbered ? "w2" : "down_proj") + ".weight"] =
        zeros(DType::bf16, {shape_[1], shape_[0]});
    return all;
  }

  std::vector<std::uint64_t> shape_;
  Checkpoint checkpoint_;
};

std::vector<float> values_of(const compute::MatrixView& matrix) {
  std::vector<float> values(std::size_t{matrix.rows} * matrix.cols);
  for (std::uint32_t row = 0; row < matrix.rows; ++row) {
    decode_row(matrix.type, matrix.row(row),
               std::span(values).subspan(std::size_t{row} * matrix.cols, matrix.cols));
  }
  return values;
}

bool has_only_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

TEST_P(Formats, DenseF32HoldsTheGoldenValuesAndBf16TheirRounding) {
  const std::vector<float> golden = formats().floats(GetParam().golden);
  ASSERT_TRUE(has_only_finite(golden));
  const SourceFile file(tensors());
  for (const bool is_f32 : {true, false}) {
    const auto built =
        file.expert(checkpoint_, 0, 0, [&](work::BuildExpertBlob& job) { job.dense_f32 = is_f32; });
    ASSERT_TRUE(built) << built.error().message();
    EXPECT_EQ(built->up_type, is_f32 ? WeightType::f32 : WeightType::bf16);
    EXPECT_EQ(built->down_type, WeightType::bf16);  // plain sources stay as they are
    const auto blob = wire::parse_expert_blob(built->blob.bytes());
    ASSERT_TRUE(blob) << blob.error().message();
    const std::vector<float> values = values_of(blob->view.up);
    ASSERT_EQ(values.size(), golden.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float expected =
          is_f32 ? golden[i] : tensor::bf16_to_f32(tensor::f32_to_bf16(golden[i]));
      ASSERT_EQ(values[i], expected) << "element " << i;
    }
  }
}

TEST_P(Formats, QuantisedBytesAreThoseOfTheDecodedRows) {
  const std::vector<float> golden = formats().floats(GetParam().golden);
  ASSERT_EQ(shape_[1] % 32, 0U);
  const SourceFile file(tensors());
  const auto built = file.expert(
      checkpoint_, 0, 0, [](work::BuildExpertBlob& job) { job.up_quant = WeightType::q8_0; });
  ASSERT_TRUE(built) << built.error().message();
  const auto blob = wire::parse_expert_blob(built->blob.bytes());
  ASSERT_TRUE(blob) << blob.error().message();
  std::vector<std::byte> expected(tensor::row_bytes(WeightType::q8_0, shape_[1]));
  for (std::uint32_t row = 0; row < shape_[0]; ++row) {
    tensor::encode_row(WeightType::q8_0, std::span(golden).subspan(row * shape_[1], shape_[1]),
                       expected);
    const auto got = blob->view.up.row(row);
    ASSERT_TRUE(std::equal(got.begin(), got.end(), expected.begin())) << "row " << row;
  }
}

TEST_P(Formats, AWeightWhoseScaleIsMissingIsRefusedByName) {
  const std::string stem = GetParam().stem;
  const std::string value = stem + GetParam().tensors[0].first;
  const std::string scale = stem + GetParam().tensors[1].first;
  FileTensors all = tensors();
  all.erase(scale);
  const auto refused = SourceFile(all).expert(checkpoint_, 0, 0);
  ASSERT_FALSE(refused);
  const std::string why = refused.error().detail;
  EXPECT_TRUE(why.starts_with("tensor '" + value + "' has no scale: '" + stem)) << why;
  EXPECT_TRUE(why.ends_with("' is missing")) << why;
}

TEST_P(Formats, AScaleOfAnotherShapeOrTypeIsRefusedByName) {
  const std::string scale = GetParam().stem + GetParam().tensors[1].first;
  FileTensors all = tensors();
  all[scale] = zeros(all[scale].dtype, {1, 1});
  const auto reshaped = SourceFile(all).expert(checkpoint_, 0, 0);
  ASSERT_FALSE(reshaped);
  EXPECT_TRUE(reshaped.error().detail.starts_with("tensor '" + scale + "' has shape [1, 1]"))
      << reshaped.error().detail;
  all = tensors();
  all[scale] = zeros(DType::i64, all[scale].shape);
  const auto retyped = SourceFile(all).expert(checkpoint_, 0, 0);
  ASSERT_FALSE(retyped);
  EXPECT_TRUE(
      retyped.error().detail.starts_with("tensor '" + scale + "' has unsupported dtype I64"))
      << retyped.error().detail;
}

INSTANTIATE_TEST_SUITE_P(Published, Formats, ::testing::ValuesIn(kStored),
                         [](const auto& one) { return std::string(one.param.title); });

// gpt-oss publishes both halves of gate and up in one slab of alternating rows.
class GptOssMxfp4 : public ::testing::Test {
 protected:
  GptOssMxfp4() : golden_(formats().info("golden.gptoss.gate_up_proj.f32").shape) {
    const std::string mlp = "model.layers.0.mlp.";
    const auto experts = golden_[0];
    const auto width = golden_[1];
    const auto twice = golden_[2];
    checkpoint_ = checkpoint_of(R"({"model_type":"gpt_oss","num_hidden_layers":1,"hidden_size":)" +
                                std::to_string(width) + R"(,"intermediate_size":)" +
                                std::to_string(twice / 2) + R"(,"num_local_experts":)" +
                                std::to_string(experts) + R"(,"num_experts_per_tok":1})");
    tensors_[mlp + "experts.gate_up_proj_blocks"] = copy("gptoss.gate_up_proj_blocks");
    tensors_[mlp + "experts.gate_up_proj_scales"] = copy("gptoss.gate_up_proj_scales");
    tensors_[mlp + "experts.gate_up_proj_bias"] = zeros(DType::bf16, {experts, twice});
    tensors_[mlp + "experts.down_proj"] = zeros(DType::bf16, {experts, twice / 2, width});
    tensors_[mlp + "experts.down_proj_bias"] = zeros(DType::bf16, {experts, width});
  }

  std::vector<std::uint64_t> golden_;
  Checkpoint checkpoint_;
  FileTensors tensors_;
};

TEST_F(GptOssMxfp4, AlternatingRowsOfEachExpertAreItsGateAndItsUp) {
  const SourceFile file(tensors_);
  const std::vector<float> golden = formats().floats("golden.gptoss.gate_up_proj.f32");
  const std::size_t width = golden_[1];
  const std::size_t twice = golden_[2];
  for (ExpertIndex e = 0; e < golden_[0]; ++e) {
    const auto built =
        file.expert(checkpoint_, 0, e, [](work::BuildExpertBlob& job) { job.dense_f32 = true; });
    ASSERT_TRUE(built) << built.error().message();
    const auto blob = wire::parse_expert_blob(built->blob.bytes());
    ASSERT_TRUE(blob) << blob.error().message();
    const std::vector<float> gate = values_of(*blob->view.gate);
    const std::vector<float> up = values_of(blob->view.up);
    // The golden is [experts, in, 2 x out], as the class holds it.
    for (std::size_t in = 0; in < width; ++in) {
      for (std::size_t out = 0; out < twice / 2; ++out) {
        const float* at = &golden[(e * width + in) * twice + 2 * out];
        ASSERT_EQ(gate[out * width + in], at[0]);
        ASSERT_EQ(up[out * width + in], at[1]);
      }
    }
  }
}

TEST_F(GptOssMxfp4, BlocksWithoutScalesAreRefusedByName) {
  tensors_.erase("model.layers.0.mlp.experts.gate_up_proj_scales");
  const auto refused = SourceFile(tensors_).expert(checkpoint_, 0, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail,
            "tensor 'model.layers.0.mlp.experts.gate_up_proj_blocks' has no scale: "
            "'model.layers.0.mlp.experts.gate_up_proj_scales' is missing");
}

TEST(PackedWeights, ANanCodeIsRefusedNamingLayerExpertTensorAndRow) {
  FileTensors tensors;
  const std::string expert = "model.layers.0.mlp.experts.1.";
  tensors[expert + "gate_proj.weight"] = zeros(DType::bf16, {32, 32});
  tensors[expert + "down_proj.weight"] = zeros(DType::bf16, {32, 32});
  tensors[expert + "up_proj.weight"] = zeros(DType::f8_e4m3, {32, 32});
  tensors[expert + "up_proj.weight_scale_inv"] = zeros(DType::f32, {1, 1});
  tensors[expert + "up_proj.weight"].bytes[7 * 32 + 3] = std::byte{0x7F};
  const Checkpoint checkpoint = checkpoint_of(
      R"({"model_type":"deepseek_v3","num_hidden_layers":1,"hidden_size":32,
          "moe_intermediate_size":32,"n_routed_experts":2,"num_experts_per_tok":1})");
  for (const auto quant : {std::optional<WeightType>(), std::optional(WeightType::q8_0)}) {
    const auto refused = SourceFile(tensors).expert(
        checkpoint, 0, 1, [&](work::BuildExpertBlob& job) { job.up_quant = quant; });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(), "layer 0 expert 1: tensor '" + expert +
                                             "up_proj.weight' has a non-finite value in row 7");
  }
}

TEST(PackedWeights, ZeroPointsAndOtherFormsAreRefusedByName) {
  const Checkpoint checkpoint = checkpoint_of(
      R"({"model_type":"kimi_k25","num_hidden_layers":1,"hidden_size":32,
          "moe_intermediate_size":32,"n_routed_experts":2,"num_experts_per_tok":1})");
  const std::string stem = "language_model.model.layers.0.mlp.experts.0.";
  FileTensors tensors;
  tensors[stem + "gate_proj.weight"] = zeros(DType::bf16, {32, 32});
  tensors[stem + "down_proj.weight"] = zeros(DType::bf16, {32, 32});
  tensors[stem + "up_proj.weight_packed"] = zeros(DType::i32, {32, 4});
  tensors[stem + "up_proj.weight_scale"] = zeros(DType::bf16, {32, 1});
  tensors[stem + "up_proj.weight_zero_point"] = zeros(DType::i32, {4, 1});
  const auto refused = SourceFile(tensors).expert(checkpoint, 0, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail, "tensor '" + stem +
                                        "up_proj.weight_packed' is quantised with zero points, "
                                        "which are not supported");
  tensors.erase(stem + "up_proj.weight_zero_point");
  tensors[stem + "up_proj.weight_g_idx"] = zeros(DType::i32, {32});
  const SourceFile ordered_file(tensors);
  const auto ordered = ordered_file.expert(checkpoint, 0, 0);
  ASSERT_FALSE(ordered);
  EXPECT_EQ(ordered.error().detail, "tensor '" + stem +
                                        "up_proj.weight_packed' has its columns in another order "
                                        "(weight_g_idx), which is not supported");
  // A sharded checkpoint's finder sees only what its index is asked for.
  const std::vector<ExpertIndex> first{0};
  const auto wanted = wanted_tensors(
      checkpoint, 0, first, false, [&](const std::string& name) { return tensors.contains(name); });
  ASSERT_TRUE(wanted) << wanted.error().message();
  EXPECT_EQ(std::count(wanted->begin(), wanted->end(), stem + "up_proj.weight_g_idx"), 1);
  tensors.erase(stem + "up_proj.weight_g_idx");
  tensors[stem + "up_proj.weight_packed"] = zeros(DType::i16, {32, 4});
  const auto other = SourceFile(tensors).expert(checkpoint, 0, 0);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().detail, "tensor '" + stem +
                                      "up_proj.weight_packed' has unsupported dtype I16 (want I32 "
                                      "or U8)");
}

}  // namespace
}  // namespace tenzro::prepare
