// What a prepare job publishes is loaded here, unless the node is drained meanwhile.
#include <gtest/gtest.h>

#include "support/node_world.hpp"

namespace tenzro::testing {
namespace {

TEST(PreparedLoads, AreRefusedOnceTheNodeDrainsAndThoseThatHadBegunEndWhole) {
  const std::string model = "tiny-qwen3-moe";
  NodeWorld world;
  const RequestId request = world.begin(
      rpc::PrepareExpertsCall{.model = model,
                              .layer = 0,
                              .source = std::string(TENZRO_TEST_DATA) + "/models/" + model,
                              .loads = true});
  while (world.node().holder().experts().empty() && world.work()) {
  }
  ASSERT_FALSE(world.node().holder().experts().empty());
  world.node().drain();
  world.settle();
  const std::size_t held = world.node().holder().experts().size();
  EXPECT_LT(held, 16U);
  const auto started = world.answer(request);
  ASSERT_TRUE(started.has_value());
  const auto job = expect_answer<rpc::PrepareStartedAnswer>(*started).job_id;
  const auto status =
      expect_answer<rpc::PrepareStatusAnswer>(world.call(rpc::PrepareStatusCall{job}));
  EXPECT_EQ(status.state, rpc::PrepareState::failed);
  EXPECT_NE(status.error.value_or("").find("is draining and takes no new experts"),
            std::string::npos)
      << status.error.value_or("");
  std::size_t rows = 0;
  for (const work::HoldingRow& row : world.store().rows()) rows += row.expert ? 1U : 0U;
  EXPECT_EQ(rows, held) << "none is half there";
}

}  // namespace
}  // namespace tenzro::testing
