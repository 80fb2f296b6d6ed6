// Holdings: what is acknowledged is there after a restart, and blobs go exactly when nothing needs
// them.
#include <filesystem>
#include <latch>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_store.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TemporaryDirectory;

TEST(Holdings, RowsAndBlobsAreThereAfterARestart) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  work::HoldingRow expert = expert_row(7, "expert bytes");
  expert.layer.model = "org/mödel ' ; ../x";
  expert.layer.layer = 4'000'000'000;
  expert.source_uri = "tenzro://blob/x";
  expert.facts = {.d_model = 64,
                  .d_ff = 4'294'967'295,
                  .gate_type = tensor::WeightType::q4_k,
                  .up_type = tensor::WeightType::q6_k,
                  .down_type = tensor::WeightType::bf16,
                  .resident_bytes = 1ULL << 40U};
  ASSERT_EQ(node.save(expert, "expert bytes"), std::nullopt);
  ASSERT_EQ(node.save(gate_row("gate bytes"), "gate bytes"), std::nullopt);

  ASSERT_TRUE(node.open());
  ASSERT_THAT(node.rows(), SizeIs(2));
  const work::HoldingRow& gate = node.rows()[0];  // saved last, listed first
  EXPECT_EQ(gate.expert, std::nullopt);
  EXPECT_EQ(gate.hash, hash_of("gate bytes"));
  EXPECT_EQ(gate.gate_experts, 8U);
  EXPECT_EQ(gate.gate_d_model, 64U);
  EXPECT_EQ(gate.gate_bytes, 10U);
  EXPECT_EQ(gate.source_uri, std::nullopt);
  const work::HoldingRow& loaded = node.rows()[1];
  EXPECT_EQ(loaded.layer, expert.layer);
  EXPECT_EQ(loaded.expert, 7U);
  EXPECT_EQ(loaded.source_uri, expert.source_uri);
  EXPECT_EQ(loaded.facts.d_model, 64U);
  EXPECT_EQ(loaded.facts.d_ff, 4'294'967'295U);
  EXPECT_EQ(loaded.facts.gate_type, tensor::WeightType::q4_k);
  EXPECT_EQ(loaded.facts.up_type, tensor::WeightType::q6_k);
  EXPECT_EQ(loaded.facts.down_type, tensor::WeightType::bf16);
  EXPECT_EQ(loaded.facts.resident_bytes, 1ULL << 40U);
  EXPECT_EQ(node.read(loaded.hash), "expert bytes");
  EXPECT_EQ(node.read(gate.hash), "gate bytes");
  EXPECT_THAT(node.warnings(), IsEmpty());
}

// What a killed process leaves is what its files are at that moment: a copy of them, taken while it
// runs.
TEST(Holdings, AcknowledgedHoldingIsThereForWhoeverStartsAfterAKill) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "one"), "one"), std::nullopt);
  ASSERT_EQ(node.save(expert_row(1, "two"), "two"), std::nullopt);
  ASSERT_EQ(node.save(expert_row(2, "more"), "more"), std::nullopt);
  std::filesystem::copy(temporary / "data", temporary / "after",
                        std::filesystem::copy_options::recursive);
  NodeStore after(temporary / "after");
  ASSERT_TRUE(after.open());
  ASSERT_THAT(after.rows(), SizeIs(2));
  EXPECT_EQ(after.read(after.rows()[0].hash), "more");
  EXPECT_EQ(after.read(after.rows()[1].hash), "two");
}

TEST(Holdings, ReplacedHoldingFreesItsBlob) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "old"), "old"), std::nullopt);
  ASSERT_EQ(node.save(expert_row(1, "new"), "new"), std::nullopt);
  EXPECT_THAT(node.blobs_on_disk(), ElementsAre(to_hex(hash_of("new"))));
  EXPECT_EQ(node.read(hash_of("old")).error().code, ErrorCode::not_found);
  EXPECT_EQ(node.store().usage().blob_bytes, 3U);
  ASSERT_TRUE(node.open());
  EXPECT_THAT(node.rows(), SizeIs(1));
}

TEST(Holdings, SavingTheSameAgainKeepsTheBlob) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "same"), "same"), std::nullopt);
  ASSERT_EQ(node.save(expert_row(1, "same"), "same"), std::nullopt);
  ASSERT_EQ(node.save_again(expert_row(1, "same")), std::nullopt);
  EXPECT_EQ(node.read(hash_of("same")), "same");
  EXPECT_EQ(node.store().usage().blob_bytes, 4U);
}

TEST(Holdings, SharedBlobStaysUntilItsLastHoldingGoes) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const work::HoldingRow one = expert_row(1, "shared");
  const work::HoldingRow two = expert_row(2, "shared");
  ASSERT_EQ(node.save(one, "shared"), std::nullopt);
  ASSERT_EQ(node.save_again(two), std::nullopt);
  EXPECT_TRUE(node.remove(one));
  EXPECT_EQ(node.read(hash_of("shared")), "shared");
  EXPECT_TRUE(node.remove(two));
  EXPECT_THAT(node.blobs_on_disk(), IsEmpty());
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
}

TEST(Holdings, RemovingWhatIsNotThereIsNoError) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(gate_row("gate"), "gate"), std::nullopt);
  EXPECT_FALSE(node.remove(expert_row(1, "x")));
  EXPECT_TRUE(node.remove(gate_row("gate")));
  EXPECT_FALSE(node.remove(gate_row("gate")));
}

TEST(Holdings, PublishedBlobSurvivesUnload) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.publish("public"), hash_of("public"));
  ASSERT_EQ(node.save_again(expert_row(1, "public")), std::nullopt);
  ASSERT_TRUE(node.remove(expert_row(1, "public")));
  EXPECT_EQ(node.read(hash_of("public")), "public");
  ASSERT_TRUE(node.open());
  EXPECT_EQ(node.read(hash_of("public")), "public");
}

TEST(Holdings, PublishingABlobThatIsHeldKeepsItToo) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "held"), "held"), std::nullopt);
  ASSERT_TRUE(node.publish("held"));
  ASSERT_TRUE(node.remove(expert_row(1, "held")));
  EXPECT_EQ(node.read(hash_of("held")), "held");
  EXPECT_EQ(node.store().usage().blob_bytes, 4U);
}

TEST(Holdings, HoldingOfAnUnknownBlobIsRefused) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const std::optional<Error> error = node.save_again(expert_row(1, "nowhere"));
  ASSERT_NE(error, std::nullopt);
  EXPECT_EQ(error->code, ErrorCode::not_found);
  EXPECT_THAT(error->message(), HasSubstr(to_hex(hash_of("nowhere"))));
}

TEST(Holdings, BytesOfAnotherHashAreRefusedAndTheOldHoldingStays) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "good"), "good"), std::nullopt);
  EXPECT_NE(node.save(expert_row(1, "promised"), "delivered"), std::nullopt);
  EXPECT_THAT(node.blobs_on_disk(), ElementsAre(to_hex(hash_of("good"))));
  ASSERT_TRUE(node.open());
  ASSERT_THAT(node.rows(), SizeIs(1));
  EXPECT_EQ(node.rows()[0].hash, hash_of("good"));
}

TEST(Holdings, SavesOfOneKeyEndInOrderOfSubmission) {
  constexpr int kSaves = 50;
  TemporaryDirectory temporary;
  FileSystem files;
  Result<DataDir> dir = DataDir::open(temporary / "data", files);
  ASSERT_TRUE(dir);
  std::latch done(kSaves);
  std::vector<std::uint64_t> order;  // completions of changes do not overlap
  Result<OpenedStore> opened = Store::open(*dir, Options{.blob_dir = {}, .threads = 4},
                                           [&](JobId id, const work::StoreResult& result) {
                                             EXPECT_TRUE(result);
                                             order.push_back(static_cast<std::uint64_t>(id));
                                             done.count_down();
                                           });
  ASSERT_TRUE(opened);
  std::vector<std::uint64_t> submitted;
  for (int i = 0; i < kSaves; ++i) {
    const std::string blob = "version " + std::to_string(i);
    submitted.push_back(static_cast<std::uint64_t>(i));
    opened->store->submit(JobId{static_cast<std::uint64_t>(i)},
                          work::SaveHolding{expert_row(1, blob), BufferRef::copy_of(blob)});
  }
  done.wait();
  EXPECT_EQ(order, submitted);
  opened->store.reset();
  opened = Store::open(*dir, Options{}, [](JobId, const work::StoreResult&) {});
  ASSERT_TRUE(opened);
  ASSERT_THAT(opened->rows, SizeIs(1));
  EXPECT_EQ(opened->rows[0].hash, hash_of("version " + std::to_string(kSaves - 1)));
}

TEST(Holdings, HoldingWhoseFileIsGoneIsNotListedAndCanBeSavedAgain) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "kept"), "kept"), std::nullopt);
  ASSERT_EQ(node.save(expert_row(2, "lost"), "lost"), std::nullopt);
  node.close();
  std::filesystem::rename(node.path_of(hash_of("lost")), temporary / "elsewhere");
  ASSERT_TRUE(node.open());
  ASSERT_THAT(node.rows(), SizeIs(1));
  EXPECT_EQ(node.rows()[0].expert, 1U);
  ASSERT_THAT(node.warnings(), SizeIs(1));
  EXPECT_THAT(node.warnings()[0], HasSubstr("1 blobs are missing"));

  node.close();  // the disk is mounted again
  std::filesystem::rename(temporary / "elsewhere", node.path_of(hash_of("lost")));
  ASSERT_TRUE(node.open());
  EXPECT_THAT(node.rows(), SizeIs(2));

  node.close();
  std::filesystem::remove(node.path_of(hash_of("lost")));
  ASSERT_EQ(node.save(expert_row(2, "lost"), "lost"), std::nullopt);
  EXPECT_EQ(node.read(hash_of("lost")), "lost");
  EXPECT_EQ(node.store().usage().blob_bytes, 8U);
}

TEST(Holdings, FileThatNoRowNamesIsRemovedOnOpen) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "wanted"), "wanted"), std::nullopt);
  node.close();
  const std::filesystem::path orphan = node.path_of(hash_of("orphan"));
  std::filesystem::create_directories(orphan.parent_path());
  testing::write_text(orphan, "orphan");
  testing::write_text(node.blob_dir() + "/tmp/17", "half");
  ASSERT_TRUE(node.open());
  EXPECT_THAT(node.blobs_on_disk(), ElementsAre(to_hex(hash_of("wanted"))));
  EXPECT_THAT(node.temps_on_disk(), IsEmpty());
  EXPECT_EQ(node.store().usage().blob_bytes, 6U);
}

}  // namespace
}  // namespace tenzro::store
