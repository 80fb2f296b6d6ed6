// Importance of columns: which part of an imatrix file an expert gets, and what becomes of it.
#include <algorithm>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/prepare/build_blob.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "unit/prepare/source_file.hpp"

namespace tenzro::prepare {
namespace {

using tensor::DType;
using tensor::WeightType;
using testing::FileTensor;
using testing::FileTensors;
using testing::SourceFile;

constexpr std::uint32_t kWidth = 256;
constexpr std::uint32_t kExperts = 3;
const std::string kExpert = "model.layers.0.mlp.experts.1.";
const std::string kImatrix = "blk.0.";

FileTensor tensor_of(std::vector<std::uint64_t> shape, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {DType::f32, std::move(shape), {bytes.begin(), bytes.end()}};
}

std::vector<float> random_values(Prng& prng, std::size_t count, float low) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(prng.below(1000)) / 500.0F + low;
  return values;
}

class Importance : public ::testing::Test {
 protected:
  Importance()
      : checkpoint_(testing::checkpoint_of(
            R"({"model_type":"qwen3_moe","hidden_size":256,"moe_intermediate_size":256,
                "num_experts":3,"num_experts_per_tok":1,"num_hidden_layers":1})")) {
    Prng prng(71);
    for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
      tensors_[kExpert + projection + ".weight"] =
          tensor_of({kWidth, kWidth}, random_values(prng, kWidth * kWidth, -1.0F));
    }
    sums_ = random_values(prng, kExperts * kWidth, 0.1F);
    set("ffn_up_exps", sums_, {1, 4, 9});
    set("ffn_down_exps", sums_, {1, 4, 9});
  }

  void set(const std::string& name, const std::vector<float>& sums,
           const std::vector<float>& counts) {
    tensors_[kImatrix + name + ".weight.in_sum2"] = tensor_of({kExperts, kWidth}, sums);
    tensors_[kImatrix + name + ".weight.counts"] = tensor_of({kExperts, 1}, counts);
  }

  [[nodiscard]] Result<work::BuiltExpertBlob> build(bool is_weighted, WeightType type,
                                                    ExpertIndex expert = 1) const {
    const SourceFile file(tensors_);
    auto plan = plan_expert(checkpoint_, 0, expert, file.finder());
    if (!plan) return fail(plan.error());
    if (is_weighted) {
      auto status = plan_importance(checkpoint_, 0, expert, file.finder(), *plan);
      if (!status) return fail(status.error());
    }
    for (std::size_t i = 0; i < plan->reads.size(); ++i) {
      plan->job.parts[i] = file.read(plan->reads[i].begin, plan->reads[i].end);
    }
    plan->job.gate_quant = plan->job.up_quant = plan->job.down_quant = type;
    compute::SerialExecutor executor;
    return build_expert_blob(plan->job, executor, tensor::RowEncoder());
  }

  Checkpoint checkpoint_;
  FileTensors tensors_;
  std::vector<float> sums_;
};

TEST_F(Importance, RowsAreWeighedByTheExpertsOwnMeans) {
  std::vector<float> weights(sums_.begin() + kWidth, sums_.begin() + 2 * kWidth);
  for (float& weight : weights) weight /= 4.0F;
  for (const WeightType type : {WeightType::q4_k, WeightType::q6_k}) {
    const auto built = build(true, type);
    ASSERT_TRUE(built) << built.error().message();
    const auto blob = wire::parse_expert_blob(built->blob.bytes());
    ASSERT_TRUE(blob) << blob.error().message();
    std::vector<float> row(kWidth);
    const auto& source = tensors_.at(kExpert + "down_proj.weight").bytes;
    convert_to_f32(DType::f32, std::span(source).subspan(5 * kWidth * 4, kWidth * 4), row);
    std::vector<std::byte> expected(row_bytes(type, kWidth));
    encode_row_weighted(type, row, weights, expected);
    const auto got = blob->view.down.row(5);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin()));
  }
}

TEST_F(Importance, AnExpertThatCalibrationNeverReachedCountsItsColumnsAlike) {
  set("ffn_up_exps", sums_, {1, 0, 9});
  const auto built = build(true, WeightType::q6_k);
  ASSERT_TRUE(built) << built.error().message();
  const auto blob = wire::parse_expert_blob(built->blob.bytes());
  std::vector<float> row(kWidth);
  convert_to_f32(DType::f32,
                 std::span(tensors_.at(kExpert + "up_proj.weight").bytes).first(kWidth * 4), row);
  std::vector<std::byte> expected(row_bytes(WeightType::q6_k, kWidth));
  encode_row_weighted(WeightType::q6_k, row, std::vector<float>(kWidth, 1.0F), expected);
  const auto got = blob->view.up.row(0);
  EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin()));
}

TEST_F(Importance, Q8IsTheSameWithAndWithout) {
  const auto with = build(true, WeightType::q8_0);
  const auto without = build(false, WeightType::q8_0);
  ASSERT_TRUE(with) << with.error().message();
  ASSERT_TRUE(without);
  EXPECT_TRUE(std::equal(with->blob.bytes().begin(), with->blob.bytes().end(),
                         without->blob.bytes().begin(), without->blob.bytes().end()));
}

TEST_F(Importance, ASharedExpertsSumsMayStandWithoutTheirOuterDimension) {
  checkpoint_ = testing::checkpoint_of(
      R"({"model_type":"deepseek_v3","hidden_size":256,"moe_intermediate_size":256,
          "n_routed_experts":3,"num_experts_per_tok":1,"n_shared_experts":1,
          "num_hidden_layers":1,"first_k_dense_replace":0})");
  const std::string shared = "model.layers.0.mlp.shared_experts.";
  for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
    const std::string name = std::string(projection) + ".weight";
    tensors_[shared + name] = tensors_.at(kExpert + name);
  }
  const std::vector<float> sums(sums_.begin(), sums_.begin() + kWidth);
  const auto plan_with = [&](const std::vector<std::uint64_t>& sums_shape,
                             const std::vector<std::uint64_t>& counts_shape) {
    for (const char* name : {"ffn_up_shexp", "ffn_down_shexp"}) {
      tensors_[kImatrix + name + ".weight.in_sum2"] = tensor_of(sums_shape, sums);
      tensors_[kImatrix + name + ".weight.counts"] = tensor_of(counts_shape, {4});
    }
    return build(true, WeightType::q4_k, kExperts);
  };
  const auto whole = plan_with({1, kWidth}, {1, 1});
  ASSERT_TRUE(whole) << whole.error().message();
  const auto dropped = plan_with({kWidth}, {1});
  ASSERT_TRUE(dropped) << dropped.error().message();
  EXPECT_TRUE(std::equal(whole->blob.bytes().begin(), whole->blob.bytes().end(),
                         dropped->blob.bytes().begin(), dropped->blob.bytes().end()));
  const auto unweighted = build(false, WeightType::q4_k, kExperts);
  ASSERT_TRUE(unweighted) << unweighted.error().message();
  EXPECT_FALSE(std::equal(whole->blob.bytes().begin(), whole->blob.bytes().end(),
                          unweighted->blob.bytes().begin(), unweighted->blob.bytes().end()));
  const auto other = plan_with({1, 1, kWidth}, {1});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().detail,
            "tensor 'blk.0.ffn_up_shexp.weight.in_sum2' has shape [1, 1, "
            "256], expected [1, 256]");
}

TEST_F(Importance, WhatCannotBeAnImportanceIsRefusedByName) {
  FileTensors whole = tensors_;
  const std::string sums = kImatrix + "ffn_down_exps.weight.in_sum2";
  tensors_[sums] = tensor_of({kExperts, 128}, std::vector<float>(kExperts * 128, 1.0F));
  const auto short_rows = build(true, WeightType::q4_k);
  ASSERT_FALSE(short_rows);
  EXPECT_EQ(short_rows.error().detail,
            "tensor '" + sums + "' has shape [3, 128], expected [3, 256]");
  tensors_ = whole;
  tensors_.erase(kImatrix + "ffn_up_exps.weight.counts");
  const auto missing = build(true, WeightType::q4_k);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().detail, "tensor 'blk.0.ffn_up_exps.weight.counts' is missing");
  tensors_ = whole;
  std::vector<float> negative = sums_;
  negative[kWidth + 3] = -1.0F;
  set("ffn_down_exps", negative, {1, 4, 9});
  const auto below = build(true, WeightType::q4_k);
  ASSERT_FALSE(below);
  EXPECT_EQ(below.error().message(),
            "layer 0 expert 1: tensor '" + sums + "' has a negative value");
}

}  // namespace
}  // namespace tenzro::prepare
