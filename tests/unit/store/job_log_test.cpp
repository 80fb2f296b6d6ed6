// The log of prepare jobs outlives its process, and damage costs history alone.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_store.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;

struct Fixture {
  TemporaryDirectory temporary;
  NodeStore node{temporary / "data"};

  Result<BlobHash> publish(const std::string& job, const std::string& name,
                           const std::string& bytes) {
    const work::StoreResult result = node.call(work::PublishBlob{
        BufferRef::copy_of(bytes), work::JobPart{job, name, "record of " + name}});
    if (!result) return fail(result.error());
    return std::get<work::Published>(*result).hash;
  }
};

TEST(JobLog, JobsAndTheirPartsAreThereAtTheNextStartInOrder) {
  Fixture fixture;
  ASSERT_TRUE(fixture.node.call(work::LogJob{"b", "first"}));
  ASSERT_TRUE(fixture.node.call(work::LogJob{"a", "second"}));
  const auto hash = fixture.publish("b", "3/1", "bytes");
  ASSERT_TRUE(hash);
  ASSERT_TRUE(fixture.publish("b", "3/gate", "gate"));
  ASSERT_TRUE(fixture.node.call(work::LogJob{"b", "first, later"}));
  fixture.node.close();
  ASSERT_TRUE(fixture.node.open());
  const auto& jobs = fixture.node.jobs();
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].id, "b");
  EXPECT_EQ(jobs[0].record, "first, later");
  ASSERT_EQ(jobs[0].parts.size(), 2U);
  EXPECT_EQ(jobs[0].parts[0].name, "3/1");
  EXPECT_EQ(jobs[0].parts[0].record, "record of 3/1");
  EXPECT_EQ(jobs[0].parts[0].hash, *hash);
  EXPECT_EQ(jobs[0].parts[0].size_bytes, 5U);
  EXPECT_TRUE(jobs[0].parts[0].is_there);
  EXPECT_EQ(jobs[1].record, "second");
}

TEST(JobLog, AForgottenJobGoesWithItsPartsAndItsBlobsStay) {
  Fixture fixture;
  ASSERT_TRUE(fixture.node.call(work::LogJob{"a", "x"}));
  const auto hash = fixture.publish("a", "0/0", "bytes");
  ASSERT_TRUE(fixture.node.call(work::ForgetJob{"a"}));
  ASSERT_TRUE(fixture.node.call(work::LogJob{"a", "y"}));
  fixture.node.close();
  ASSERT_TRUE(fixture.node.open());
  ASSERT_EQ(fixture.node.jobs().size(), 1U);
  EXPECT_TRUE(fixture.node.jobs()[0].parts.empty());
  EXPECT_EQ(fixture.node.read(*hash), "bytes");
}

TEST(JobLog, APartWhoseBlobIsGoneIsSaidToBeThat) {
  Fixture fixture;
  ASSERT_TRUE(fixture.node.call(work::LogJob{"a", "x"}));
  const auto hash = fixture.publish("a", "0/0", "bytes");
  fixture.node.close();
  std::filesystem::remove(fixture.node.path_of(*hash));
  ASSERT_TRUE(fixture.node.open());
  EXPECT_FALSE(fixture.node.jobs().at(0).parts.at(0).is_there);
}

TEST(JobLog, ADamagedFileIsSetAsideWithAWarningAndANewOneBegun) {
  Fixture fixture;
  ASSERT_TRUE(fixture.node.call(work::LogJob{"a", "x"}));
  const auto hash = fixture.publish("a", "0/0", "bytes");
  fixture.node.close();
  const std::string path = fixture.temporary / "data/jobs.db";
  testing::write_text(path, "this was a database once");
  ASSERT_TRUE(fixture.node.open());
  EXPECT_TRUE(fixture.node.jobs().empty());
  ASSERT_EQ(fixture.node.warnings().size(), 1U);
  EXPECT_THAT(fixture.node.warnings()[0], HasSubstr("was moved aside"));
  EXPECT_TRUE(std::filesystem::exists(path + ".damaged"));
  EXPECT_EQ(fixture.node.read(*hash), "bytes");
  ASSERT_TRUE(fixture.node.call(work::LogJob{"b", "y"}));
}

TEST(JobLog, AFileThatCannotBeOpenedStaysWhereItIs) {
  Fixture fixture;
  ASSERT_TRUE(fixture.node.call(work::LogJob{"a", "x"}));
  fixture.node.close();
  const std::filesystem::path path = fixture.temporary / "data/jobs.db";
  const std::filesystem::path kept = fixture.temporary / "kept.db";
  std::filesystem::rename(path, kept);
  std::filesystem::create_directory(path);  // that no database opens
  EXPECT_FALSE(fixture.node.open());
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".damaged"));
  std::filesystem::remove(path);
  std::filesystem::rename(kept, path);
  ASSERT_TRUE(fixture.node.open());
  EXPECT_EQ(fixture.node.jobs().size(), 1U);
}

TEST(JobLog, SpaceIsCheckedAgainstBudgetAndDisk) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .disk_budget_bytes = 1000});
  ASSERT_TRUE(node.open());
  EXPECT_TRUE(node.call(work::CheckSpace{1000}));
  const work::StoreResult refused = node.call(work::CheckSpace{1001});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  EXPECT_EQ(refused.error().message(),
            "disk budget: 0 of 1000 bytes are used, 1001 more do not fit");
  NodeStore unbounded(temporary / "other");
  ASSERT_TRUE(unbounded.open());
  const work::StoreResult huge = unbounded.call(work::CheckSpace{1ULL << 60U});
  ASSERT_FALSE(huge);
  EXPECT_THAT(huge.error().message(), HasSubstr("bytes do not fit"));
}

}  // namespace
}  // namespace tenzro::store
