// Goal: every router family, through blobs, upload, gate, experts and combine, gives its reference
// class's output.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tenzro/wire/expert_blob.hpp"

#include "support/family_golden.hpp"
#include "support/node_world.hpp"

namespace tenzro::testing {
namespace {

class FamilyForward : public ::testing::TestWithParam<std::string> {};

TEST_P(FamilyForward, BlobsLoadedIntoANodeGiveTheGoldenOutput) {
  const FamilyCase golden = load_family_case(GetParam(), std::string(TENZRO_TEST_DATA) + "/router");
  NodeWorld world;
  const wire::GateBlob& gate = golden.layer.gate;
  expect_answer<rpc::GateRow>(
      world.call(rpc::GateLoadCall{.key = {"m", 0},
                                   .has_inline = true,
                                   .blob = BufferRef::copy_of(wire::make_gate_blob(gate))}));
  for (ExpertIndex e = 0; e < golden.layer.experts.size(); ++e) {
    const auto row = expect_answer<rpc::ExpertRow>(world.call(rpc::ExpertLoadCall{
        .key = {"m", 0, e},
        .has_inline = true,
        .blob = BufferRef::copy_of(wire::make_expert_blob(golden.layer.experts[e]))}));
    EXPECT_EQ(row.source_uri, std::nullopt);
  }
  rpc::ForwardCall call{.route = {.key = {"m", 0}, .d_model = gate.d_model, .top_k = golden.top_k}};
  call.route.hidden = {golden.tokens, gate.d_model,
                       BufferRef::copy_of(std::as_bytes(std::span(golden.hidden)))};
  if (!golden.token_ids.empty()) call.route.token_ids = golden.token_ids;
  const auto answer = expect_answer<rpc::ForwardAnswer>(world.call(call));
  const std::span<const float> got = answer.outputs.as<float>();
  ASSERT_EQ(got.size(), golden.output.size());
  float largest = 0;
  for (const float value : golden.output) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], golden.output[i], 1e-4F * largest) << "value " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyForward, ::testing::ValuesIn(family_case_names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace tenzro::testing
