// Goal: families that have no golden of their own give, under their real tensor names, the outputs
// that their formulas say.
// Method: Qwen3 Next and DiffusionGemma compute what Qwen3.5 and Gemma 4 do, so those goldens stand
// for them under their names and layouts; Kimi K2.5's int4 checkpoint is held against the formulas
// of its router and FFN (tests/support/kimi_k25_checkpoint.cpp).

#include <gtest/gtest.h>

#include "tenzro/routing/route.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "support/family_checkpoint.hpp"
#include "support/kimi_k25_checkpoint.hpp"
#include "support/naive_layer.hpp"
#include "support/tensor_table.hpp"
#include "unit/prepare/prepared_layer.hpp"

namespace tenzro::prepare {
namespace {

using testing::FamilyCase;
using testing::SourceFile;

const std::string kFolder = std::string(TENZRO_TEST_DATA) + "/router";

TEST(RelatedFamilies, ARelativesGoldenUnderTheFamilysOwnNamesGivesItsOutput) {
  for (const testing::RelatedCheckpoint& one : testing::related_checkpoints()) {
    const FamilyCase golden = testing::load_family_case(one.golden, kFolder);
    const Checkpoint checkpoint = testing::checkpoint_of(one.config);
    ASSERT_TRUE(checkpoint.check_layer(one.layer)) << one.name;
    const std::vector<float> output =
        testing::forward_prepared(SourceFile(one.file(golden)), checkpoint, one.layer, golden);
    EXPECT_LT(testing::relative_error(output, golden.output), 1e-4) << one.name;
  }
}

TEST(RelatedFamilies, Qwen3NextHasOnePredictionLayerUnlessAKeySaysOtherwise) {
  std::string config = testing::related_checkpoints()[0].config;
  const Checkpoint checkpoint = testing::checkpoint_of(config);
  EXPECT_EQ(checkpoint.mtp_layers, 1U);
  EXPECT_FALSE(checkpoint.check_layer(49));
  config.back() = ',';
  EXPECT_FALSE(testing::checkpoint_of(config + R"("num_nextn_predict_layers":0})").check_layer(48));
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
               .tokens = static_cast<std::uint32_t>(rows.size() / gate->d_model),
               .top_k = router.default_top_k().value_or(0),
               .token_ids = {},
               .shared_gate_logits = testing::naive_shared_gate_logits(*gate, rows)});
  if (!routed) testing::stop(routed.error().message());
  return testing::naive_output({.gate = *gate, .experts = views}, rows, *routed);
}

TEST(RelatedFamilies, KimiK25sInt4ExpertsGiveWhatItsFormulasSay) {
  const testing::KimiK25Checkpoint kimi = testing::make_kimi_k25_checkpoint();
  const Checkpoint checkpoint = testing::checkpoint_of(testing::kKimiK25Config);
  EXPECT_EQ(checkpoint.family->model_types, "kimi_k25");
  EXPECT_LT(
      testing::relative_error(prepared(SourceFile(kimi.file), checkpoint, kimi.rows), kimi.output),
      1e-5);
}

}  // namespace
}  // namespace tenzro::prepare
