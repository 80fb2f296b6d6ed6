// Goal: a checkpoint of every family, under its real tensor names, becomes blobs that give the
// outputs of the family's reference class.
// Method: the goldens of tests/data/router are the checkpoints; gate and experts are planned, read
// range by range, built, parsed as a holder parses them, and forwarded by a naive layer. Expert
// blobs must also equal, byte for byte, those made from tests/support's own reading of the same
// file.
#include <set>

#include <gtest/gtest.h>

#include "support/family_checkpoint.hpp"
#include "unit/prepare/prepared_layer.hpp"

namespace tenzro::prepare {
namespace {

using testing::checkpoint_of;
using testing::FamilyCase;
using testing::FamilyCheckpoint;
using testing::SourceFile;

const std::string kFolder = std::string(TENZRO_TEST_DATA) + "/router";

class FamilyLayouts : public ::testing::TestWithParam<FamilyCheckpoint> {};

SourceFile source_of(const FamilyCheckpoint& one) {
  return SourceFile(testing::file_of(one, kFolder));
}

TEST_P(FamilyLayouts, BlobsOfACheckpointGiveTheReferenceClassesOutput) {
  const FamilyCase golden = testing::load_family_case(GetParam().name, kFolder);
  const std::vector<float> output = testing::forward_prepared(
      source_of(GetParam()), checkpoint_of(GetParam().config), GetParam().layer, golden);
  EXPECT_LT(testing::relative_error(output, golden.output), 1e-4);
}

TEST_P(FamilyLayouts, AnIndexNamesExactlyTheTensorsThatThePlansRead) {
  const SourceFile file = source_of(GetParam());
  const Checkpoint checkpoint = checkpoint_of(GetParam().config);
  std::vector<ExpertIndex> all(checkpoint.expert_ids());
  for (ExpertIndex e = 0; e < all.size(); ++e) all[e] = e;
  const auto wanted = wanted_tensors(checkpoint, GetParam().layer, all, true,
                                     [&](const std::string& name) { return file.has(name); });
  ASSERT_TRUE(wanted) << wanted.error().message();
  std::set<std::string> read;
  const auto gate = plan_gate(checkpoint, GetParam().layer, file.finder());
  ASSERT_TRUE(gate) << gate.error().message();
  for (const Read& one : gate->reads) read.insert(one.tensor);
  for (const ExpertIndex e : all) {
    const auto plan = plan_expert(checkpoint, GetParam().layer, e, file.finder());
    ASSERT_TRUE(plan) << plan.error().message();
    for (const Read& one : plan->reads) read.insert(one.tensor);
  }
  EXPECT_EQ(std::set<std::string>(wanted->begin(), wanted->end()), read);
}

TEST_P(FamilyLayouts, EveryTensorItNeedsIsMissedByName) {
  const SourceFile file = source_of(GetParam());
  const Checkpoint checkpoint = checkpoint_of(GetParam().config);
  const std::vector<ExpertIndex> experts{0, checkpoint.expert_ids() - 1};
  const auto has = [&](const std::string& name) { return file.has(name); };
  const auto wanted = wanted_tensors(checkpoint, GetParam().layer, experts, true, has);
  ASSERT_TRUE(wanted) << wanted.error().message();
  for (const std::string& gone : *wanted) {
    const auto refused =
        wanted_tensors(checkpoint, GetParam().layer, experts, true,
                       [&](const std::string& name) { return name != gone && file.has(name); });
    ASSERT_FALSE(refused) << gone;
    EXPECT_NE(refused.error().message().find("is missing"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, FamilyLayouts,
                         ::testing::ValuesIn(testing::family_checkpoints().begin(),
                                             testing::family_checkpoints().end()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(FamilyLayoutsTable, EveryGoldenCaseIsPrepared) {
  std::set<std::string> names;
  for (const FamilyCheckpoint& one : testing::family_checkpoints()) names.insert(one.name);
  const auto all = testing::family_case_names();
  EXPECT_EQ(names, std::set<std::string>(all.begin(), all.end()));
}

TEST(FamilyLayoutsTable, EveryModelOfTheCatalogueHasALayoutOfItsOwn) {
  for (const char* type :
       {"qwen3_moe", "qwen3_next", "qwen3_5_moe", "gemma4", "diffusion_gemma", "deepseek_v3",
        "kimi_k2", "kimi_k25", "kimi_k3", "deepseek_v4", "minimax", "minimax_m1", "minimax_m3_vl",
        "nemotron_h", "gpt_oss", "glm_moe_dsa"}) {
    EXPECT_NE(find_family(type), nullptr) << type;
  }
  EXPECT_EQ(find_family("llama"), nullptr);
  EXPECT_EQ(find_family(""), nullptr);
}

}  // namespace
}  // namespace tenzro::prepare
