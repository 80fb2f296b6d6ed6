// Memory and disk tiers, restart and damage, as one node's client sees them.
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"

#include "support/node_world.hpp"
#include "support/random_expert.hpp"
#include "support/small_layer.hpp"

namespace tenzro::testing {
namespace {

rpc::ExpertLoadCall load_of(ExpertIndex expert) {
  return {.key = {"m", 0, expert},
          .has_inline = true,
          .blob = small_expert(static_cast<float>(expert + 1))};
}

rpc::ExpertStatusAnswer status_of(NodeWorld& world) {
  return expect_answer<rpc::ExpertStatusAnswer>(world.call(rpc::ExpertStatusCall{}));
}

std::uint64_t bytes_of_one() {
  NodeWorld world;
  return expect_answer<rpc::ExpertRow>(world.call(load_of(0))).approx_bytes;
}

/// A node whose memory holds `experts` experts, and the blob of the last of them while it comes.
NodeWorld::Setup memory_for(std::uint64_t experts) {
  NodeWorld::Setup setup;
  setup.options.holder.memory_budget_bytes = bytes_of_one() * (experts + 1);
  return setup;
}

rpc::ExecuteCall execute_call(ExpertIndex expert) {
  const std::vector<float> x{1, 0, 0, 0};
  rpc::ExecuteCall call{.key = {"m", 0, expert}, .d_model = kSmallWidth, .token_indices = {0}};
  call.hidden = {1, kSmallWidth, BufferRef::copy_of(std::as_bytes(std::span(x)))};
  call.carrier = call.hidden.data;
  return call;
}

float execute(NodeWorld& world, ExpertIndex expert) {
  return expect_answer<rpc::ExecuteAnswer>(world.call(execute_call(expert))).outputs.as<float>()[0];
}

TEST(Residency, LeastUsedExpertGoesToDiskAndComesBackWhenUsed) {
  NodeWorld world(memory_for(2));
  for (ExpertIndex e = 0; e < 3; ++e) expect_answer<rpc::ExpertRow>(world.call(load_of(e)));
  rpc::ExpertStatusAnswer status = status_of(world);
  EXPECT_EQ(status.memory_experts, 2U);
  EXPECT_EQ(status.disk_experts, 1U);
  EXPECT_EQ(status.experts[0].tier, rpc::Tier::disk);
  EXPECT_EQ(execute(world, 0), 1.0F);
  status = status_of(world);
  EXPECT_EQ(status.experts[0].tier, rpc::Tier::memory);
  EXPECT_EQ(status.memory_experts, 2U);
  EXPECT_LE(status.memory_bytes, status.memory_budget_bytes);
  EXPECT_EQ(status.admissions_over_budget, 0U);
}

TEST(Residency, ForwardOverMoreExpertsThanMemoryHoldsRunsInTurns) {
  const rpc::GateLoadCall gate{.key = {"m", 0}, .has_inline = true, .blob = small_gate(4, 4)};
  NodeWorld roomy;
  NodeWorld::Setup setup = memory_for(1);
  setup.options.holder.memory_budget_bytes +=
      expect_answer<rpc::GateRow>(roomy.call(gate)).approx_bytes;
  NodeWorld world(setup);
  expect_answer<rpc::GateRow>(world.call(gate));
  for (ExpertIndex e = 0; e < 4; ++e) expect_answer<rpc::ExpertRow>(world.call(load_of(e)));
  const std::vector<float> x{1, 1, 1, 1};
  rpc::ForwardCall call{.route = {.key = {"m", 0}, .d_model = kSmallWidth}};
  call.route.hidden = {1, kSmallWidth, BufferRef::copy_of(std::as_bytes(std::span(x)))};
  const auto answer = expect_answer<rpc::ForwardAnswer>(world.call(call));
  EXPECT_EQ(answer.outputs.as<float>()[0], 2.5F);
  EXPECT_LE(status_of(world).memory_bytes, status_of(world).memory_budget_bytes);
}

constexpr std::uint32_t kLargeWidth = 256;

rpc::ExecuteCall large_call() {
  Prng prng(11);
  rpc::ExecuteCall call{.key = {"m", 0, 0}, .d_model = kLargeWidth, .token_indices = {0, 1, 2}};
  call.hidden = {3, kLargeWidth, random_rows(prng, 3, kLargeWidth)};
  call.carrier = call.hidden.data;
  return call;
}

rpc::ExpertLoadCall large_load(tensor::WeightType type) {
  return {
      .key = {"m", 0, 0}, .has_inline = true, .blob = random_expert(7, kLargeWidth, 1024, type)};
}

/// As by `load`, of a blob that the store has.
Result<rpc::Answer> load_stored(NodeWorld& world, const rpc::ExpertLoadCall& load) {
  const BlobHash hash = crypto::blake3(load.blob.bytes());
  world.blobs().insert_or_assign(hash, load.blob);
  return world.call(rpc::ExpertLoadCall{.key = load.key, .uri = "tenzro://blob/" + to_hex(hash)});
}

TEST(Residency, ExpertOfTwiceTheBudgetServesTheSameBitsBySlicesWithinIt) {
  for (const auto type : {tensor::WeightType::f32, tensor::WeightType::q8_0,
                          tensor::WeightType::q4_k, tensor::WeightType::q6_k}) {
    NodeWorld roomy;
    const rpc::ExpertLoadCall load = large_load(type);
    expect_answer<rpc::ExpertRow>(roomy.call(load));
    const auto expected = expect_answer<rpc::ExecuteAnswer>(roomy.call(large_call()));

    NodeWorld::Setup setup;
    setup.options.holder.memory_budget_bytes = load.blob.size() / 2;
    NodeWorld world(setup);
    EXPECT_FALSE(world.call(load)) << "bytes that are sent must fit";
    expect_answer<rpc::ExpertRow>(load_stored(world, load));
    for (const bool is_restarted : {false, true}) {
      if (is_restarted) {
        world.restart();
        world.settle();
      }
      const auto answer = expect_answer<rpc::ExecuteAnswer>(world.call(large_call()));
      EXPECT_EQ(answer.outputs.text(), expected.outputs.text()) << tensor::name_of(type);
      const rpc::ExpertStatusAnswer status = status_of(world);
      EXPECT_EQ(status.experts[0].tier, rpc::Tier::disk);
      EXPECT_EQ(status.memory_experts, 0U);
      EXPECT_EQ(status.memory_bytes, 0U);
    }
  }
}

TEST(Residency, LoadByUriOfAnExpertOfTwiceTheBudgetIsCheckedBySlices) {
  const rpc::ExpertLoadCall load = large_load(tensor::WeightType::q8_0);
  const BlobHash hash = crypto::blake3(load.blob.bytes());
  NodeWorld::Setup setup;
  setup.options.holder.memory_budget_bytes = load.blob.size() / 2;
  NodeWorld world(setup);
  const rpc::ExpertLoadCall by_uri{.key = {"m", 0, 0}, .uri = "tenzro://blob/" + to_hex(hash)};
  BufferRef damaged = BufferRef::copy_of(load.blob.bytes());
  damaged.mutable_bytes().back() ^= std::byte{1};
  world.blobs().insert_or_assign(hash, damaged);
  EXPECT_FALSE(world.call(by_uri));
  world.blobs().insert_or_assign(hash, load.blob);
  expect_answer<rpc::ExpertRow>(world.call(by_uri));
  expect_answer<rpc::ExecuteAnswer>(world.call(large_call()));
  EXPECT_EQ(status_of(world).admissions_over_budget, 0U);
}

TEST(Residency, GateThatWouldTakeMoreThanHalfOfTheBudgetIsRefusedWithTheNumbers) {
  const rpc::GateLoadCall load{.key = {"m", 0}, .has_inline = true, .blob = small_gate(4, 4)};
  NodeWorld::Setup setup;
  setup.options.holder.memory_budget_bytes = 100;
  NodeWorld world(setup);
  const auto refused = world.call(load);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("they may have 50, half of the memory budget"),
            std::string::npos)
      << refused.error().message();
  EXPECT_TRUE(
      expect_answer<rpc::ExpertStatusAnswer>(world.call(rpc::ExpertStatusCall{})).gates.empty());
}

TEST(Residency, ExpertThatNotEvenSlicesOfFitIsRefusedWithTheNumbers) {
  NodeWorld::Setup setup;
  setup.options.holder.memory_budget_bytes = 1000;
  NodeWorld world(setup);
  const auto refused = load_stored(world, large_load(tensor::WeightType::q8_0));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("read by slices may have"), std::string::npos)
      << refused.error().message();
}

TEST(Residency, LoadByUriIntoABudgetOfOneByteIsRefusedWithTheNumbers) {
  const rpc::ExpertLoadCall load = large_load(tensor::WeightType::q8_0);
  const BlobHash hash = crypto::blake3(load.blob.bytes());
  NodeWorld::Setup setup;
  setup.options.holder.memory_budget_bytes = 1;
  NodeWorld world(setup);
  world.blobs().insert_or_assign(hash, load.blob);
  const auto refused =
      world.call(rpc::ExpertLoadCall{.key = {"m", 0, 0}, .uri = "tenzro://blob/" + to_hex(hash)});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("read by slices may have"), std::string::npos)
      << refused.error().message();
  EXPECT_TRUE(world.notices().empty());
  EXPECT_TRUE(world.blobs().contains(hash));
}

TEST(Residency, DamageOfAnExpertThatRunsBySlicesIsFoundBeforeItServes) {
  const rpc::ExpertLoadCall load = large_load(tensor::WeightType::q8_0);
  NodeWorld::Setup setup;
  setup.options.holder.memory_budget_bytes = load.blob.size() / 2;
  NodeWorld world(setup);
  expect_answer<rpc::ExpertRow>(load_stored(world, load));
  BufferRef& blob = world.blobs().begin()->second;
  BufferRef damaged = BufferRef::copy_of(blob.bytes());
  damaged.mutable_bytes().back() ^= std::byte{1};
  blob = damaged;
  world.restart();
  world.settle();
  EXPECT_FALSE(world.call(large_call()));
  EXPECT_TRUE(status_of(world).experts.empty());
}

/// The blob's file lost its last byte.
void truncate(BufferRef& blob) {
  blob = BufferRef::copy_of(blob.bytes().first(blob.size() - 1));
}

TEST(Residency, BlobThatIsCutShortAfterItWasCheckedIsWithdrawnAndSaidOnce) {
  NodeWorld world(memory_for(1));
  for (ExpertIndex e = 0; e < 2; ++e) expect_answer<rpc::ExpertRow>(world.call(load_of(e)));
  EXPECT_EQ(execute(world, 0), 1.0F);
  EXPECT_EQ(execute(world, 1), 2.0F);
  truncate(world.blobs().at(crypto::blake3(load_of(0).blob.bytes())));
  const auto failed = world.call(execute_call(0));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::runtime);
  EXPECT_NE(failed.error().message().find("expert disk tier I/O error: "), std::string::npos)
      << failed.error().message();
  EXPECT_EQ(status_of(world).experts.size(), 1U);
  EXPECT_FALSE(world.call(execute_call(0)));
  EXPECT_EQ(world.notices().size(), 1U);
  expect_answer<rpc::ExpertRow>(world.call(load_of(0)));
  EXPECT_EQ(execute(world, 0), 1.0F);
}

TEST(Residency, BlobThatIsCutShortAfterItRanBySlicesIsWithdrawnAndSaidOnce) {
  const rpc::ExpertLoadCall load = large_load(tensor::WeightType::q8_0);
  NodeWorld::Setup setup;
  setup.options.holder.memory_budget_bytes = load.blob.size() / 2;
  NodeWorld world(setup);
  const BlobHash hash = crypto::blake3(load.blob.bytes());
  world.blobs().insert_or_assign(hash, load.blob);
  expect_answer<rpc::ExpertRow>(
      world.call(rpc::ExpertLoadCall{.key = {"m", 0, 0}, .uri = "tenzro://blob/" + to_hex(hash)}));
  expect_answer<rpc::ExecuteAnswer>(world.call(large_call()));
  truncate(world.blobs().at(hash));
  EXPECT_FALSE(world.call(large_call()));
  EXPECT_TRUE(status_of(world).experts.empty());
  EXPECT_FALSE(world.call(large_call()));
  EXPECT_EQ(world.notices().size(), 1U);
}

TEST(Residency, RestartedNodeServesWithoutLoadingAnythingAgain) {
  NodeWorld world;
  expect_answer<rpc::GateRow>(
      world.call(rpc::GateLoadCall{.key = {"m", 0}, .has_inline = true, .blob = small_gate(2, 2)}));
  for (ExpertIndex e = 0; e < 2; ++e) expect_answer<rpc::ExpertRow>(world.call(load_of(e)));
  world.restart();
  EXPECT_FALSE(world.node().is_ready());
  world.settle();
  EXPECT_EQ(status_of(world).gates.size(), 1U);
  EXPECT_TRUE(world.node().is_ready());
  EXPECT_EQ(execute(world, 1), 2.0F);
  EXPECT_EQ(status_of(world).memory_experts, 2U);  // free memory was filled in the background
}

TEST(Residency, DamagedBlobIsWithdrawnNeverServedAndAFreshLoadHeals) {
  NodeWorld world;
  for (ExpertIndex e = 0; e < 2; ++e) expect_answer<rpc::ExpertRow>(world.call(load_of(e)));
  // One flipped byte in the weights of one blob.
  BufferRef& blob = world.blobs().begin()->second;
  BufferRef damaged = BufferRef::copy_of(blob.bytes());
  damaged.mutable_bytes().back() ^= std::byte{1};
  blob = damaged;
  world.restart();
  world.settle();
  EXPECT_EQ(status_of(world).experts.size(), 1U);
  ASSERT_EQ(world.notices().size(), 1U);
  EXPECT_NE(world.notices()[0].find("hash mismatch"), std::string::npos) << world.notices()[0];
  for (ExpertIndex e = 0; e < 2; ++e) expect_answer<rpc::ExpertRow>(world.call(load_of(e)));
  EXPECT_EQ(execute(world, 0), 1.0F);
  EXPECT_EQ(execute(world, 1), 2.0F);
}

TEST(Residency, DamagedBlobOfTwoExpertsIsWithdrawnForBoth) {
  NodeWorld::Setup setup;
  setup.options.holder.background_reads_max = 0;
  NodeWorld world(setup);
  rpc::ExpertLoadCall load = load_of(0);
  for (ExpertIndex e = 0; e < 2; ++e) {
    load.key.expert = e;
    expect_answer<rpc::ExpertRow>(world.call(load));
  }
  ASSERT_EQ(world.blobs().size(), 1U);
  BufferRef& blob = world.blobs().begin()->second;
  BufferRef damaged = BufferRef::copy_of(blob.bytes());
  damaged.mutable_bytes().back() ^= std::byte{1};
  blob = damaged;
  world.restart();
  world.settle();
  ASSERT_EQ(status_of(world).experts.size(), 2U);
  EXPECT_FALSE(world.call(execute_call(0)));
  EXPECT_TRUE(status_of(world).experts.empty());
}

TEST(Residency, ShortageOfTheMomentFailsTheCallAndKeepsTheHolding) {
  bool is_short = false;
  NodeWorld::Setup setup = memory_for(1);
  setup.store_fault = [&](const work::StoreOp& op) -> Status {
    if (!is_short || !std::holds_alternative<work::ReadBlob>(op)) return {};
    return fail(ErrorCode::busy, "", "too many open files");
  };
  NodeWorld world(setup);
  for (ExpertIndex e = 0; e < 2; ++e) expect_answer<rpc::ExpertRow>(world.call(load_of(e)));
  is_short = true;
  EXPECT_FALSE(world.call(execute_call(0)));
  EXPECT_EQ(status_of(world).experts.size(), 2U);
  EXPECT_TRUE(world.notices().empty());
  is_short = false;
  EXPECT_EQ(execute(world, 0), 1.0F);
}

TEST(Residency, UnreadableBlobThatIsWholeWhenReadAgainIsKept) {
  bool is_broken = false;
  NodeWorld::Setup setup = memory_for(1);
  setup.store_fault = [&](const work::StoreOp& op) -> Status {
    if (!is_broken || !std::holds_alternative<work::ReadBlob>(op)) return {};
    return fail(ErrorCode::io, "", "input/output error");
  };
  NodeWorld world(setup);
  for (ExpertIndex e = 0; e < 2; ++e) expect_answer<rpc::ExpertRow>(world.call(load_of(e)));
  is_broken = true;
  EXPECT_FALSE(world.call(execute_call(0)));
  is_broken = false;
  EXPECT_EQ(status_of(world).experts.size(), 2U);
  EXPECT_EQ(execute(world, 0), 1.0F);
}

TEST(Residency, LoadThatLandsWhileAReadOfTheOldBytesFailsStaysAndCountsOnce) {
  NodeWorld::Setup setup;
  bool is_broken = false;
  setup.store_fault = [&](const work::StoreOp& op) -> Status {
    if (!is_broken || !std::holds_alternative<work::ReadBlob>(op)) return {};
    return fail(ErrorCode::not_found, "", "gone");
  };
  NodeWorld world(setup);
  expect_answer<rpc::GateRow>(
      world.call(rpc::GateLoadCall{.key = {"m", 0}, .has_inline = true, .blob = small_gate(2, 2)}));
  expect_answer<rpc::ExpertRow>(world.call(load_of(0)));
  const std::uint64_t bytes = status_of(world).memory_bytes;
  is_broken = true;
  world.restart();  // reads of gate and expert are under way
  const RequestId gate =
      world.begin(rpc::GateLoadCall{.key = {"m", 0}, .has_inline = true, .blob = small_gate(2, 2)});
  const RequestId expert = world.begin(load_of(0));
  world.settle();
  EXPECT_TRUE(world.answer(gate)->has_value());
  EXPECT_TRUE(world.answer(expert)->has_value());
  is_broken = false;
  const rpc::ExpertStatusAnswer status = status_of(world);
  EXPECT_EQ(status.gates.size(), 1U);
  EXPECT_EQ(status.experts.size(), 1U);
  EXPECT_EQ(status.memory_bytes, bytes);
  EXPECT_EQ(status.disk_experts, 0U);
  EXPECT_EQ(execute(world, 0), 1.0F);
}

TEST(Residency, FullDiskRefusesTheLoadWithItsNumbersAndKeepsTheOld) {
  bool is_full = false;
  NodeWorld::Setup setup;
  setup.store_fault = [&](const work::StoreOp& op) -> Status {
    if (!is_full || !std::holds_alternative<work::SaveHolding>(op)) return {};
    return fail(ErrorCode::no_space, "", "12 bytes wanted, 3 free");
  };
  NodeWorld world(setup);
  expect_answer<rpc::ExpertRow>(world.call(load_of(0)));
  is_full = true;
  rpc::ExpertLoadCall reload = load_of(0);
  reload.blob = small_expert(50);
  const auto refused = world.call(reload);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "expert load: 12 bytes wanted, 3 free");
  EXPECT_EQ(execute(world, 0), 1.0F);
}

TEST(Residency, UnloadForgetsBothTiersAndIsNoErrorForWhatIsAbsent) {
  NodeWorld world;
  expect_answer<rpc::ExpertRow>(world.call(load_of(0)));
  EXPECT_TRUE(
      expect_answer<rpc::UnloadAnswer>(world.call(rpc::ExpertUnloadCall{{"m", 0, 0}})).removed);
  EXPECT_FALSE(
      expect_answer<rpc::UnloadAnswer>(world.call(rpc::ExpertUnloadCall{{"m", 0, 0}})).removed);
  EXPECT_FALSE(expect_answer<rpc::UnloadAnswer>(world.call(rpc::GateUnloadCall{{"m", 0}})).removed);
  world.restart();
  world.settle();
  EXPECT_TRUE(status_of(world).experts.empty());
  EXPECT_EQ(status_of(world).memory_bytes, 0U);
}

}  // namespace
}  // namespace tenzro::testing
