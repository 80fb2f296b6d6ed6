// The index: damage is refused by name and never repaired by forgetting; a failed change changes
// nothing.
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "node_store.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TemporaryDirectory;

/// Another program at the index.
void execute(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_close(database);
}

struct Fixture {
  TemporaryDirectory temporary;
  std::string index = temporary / "data/index.db";
  NodeStore node{temporary / "data"};

  /// Enough rows for several pages.
  void fill() {
    for (ExpertIndex expert = 0; expert < 100; ++expert) {
      const std::string blob = "blob " + std::to_string(expert);
      work::HoldingRow row = expert_row(expert, blob);
      row.source_uri = std::string(300, 'u');
      ASSERT_EQ(node.save(row, blob), std::nullopt);
    }
    node.close();
  }

  void expect_refused(const std::string& why) {
    const Status opened = node.open();
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message(), HasSubstr(index));
    EXPECT_THAT(opened.error().message(), HasSubstr(why));
    EXPECT_THAT(node.blobs_on_disk(), SizeIs(100));
  }
};

TEST(Index, FileThatIsNoDatabaseIsRefused) {
  Fixture fixture;
  fixture.fill();
  testing::write_text(
      fixture.index,
      "this is not a database, whatever its name says, and it is long enough to be one");
  fixture.expect_refused("is damaged (file is not a database)");
  EXPECT_THAT(testing::read_text(fixture.index), HasSubstr("this is not a database"));
}

TEST(Index, DamagedPageIsRefused) {
  Fixture fixture;
  fixture.fill();
  const auto size = std::filesystem::file_size(fixture.index);
  ASSERT_GT(size, 8 * 4096U);
  std::fstream file(fixture.index, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size / 2 / 4096 * 4096));
  file << std::string(4096, '\x5A');
  ASSERT_TRUE(file.flush());
  fixture.expect_refused("is damaged");
}

TEST(Index, CutFileIsRefused) {
  Fixture fixture;
  fixture.fill();
  std::filesystem::resize_file(fixture.index, 3 * 4096);
  fixture.expect_refused("is damaged");
}

TEST(Index, ImpossibleRowIsRefused) {
  Fixture fixture;
  fixture.fill();
  execute(fixture.index, "UPDATE holdings SET up_type = 'q9_9' WHERE expert = 5");
  fixture.expect_refused("impossible values");
}

TEST(Index, LaterVersionIsRefusedAndNotTouched) {
  Fixture fixture;
  fixture.fill();
  execute(fixture.index, "PRAGMA user_version = 2");
  fixture.expect_refused("its schema version is 2, this program knows 1");
}

TEST(Index, LostIndexBesideBlobsIsRefusedEveryTime) {
  Fixture fixture;
  fixture.fill();
  std::filesystem::remove(fixture.index);
  fixture.expect_refused("is missing (there are blobs but no index of them)");
  fixture.expect_refused("is missing (there are blobs but no index of them)");
}

TEST(Index, FailedChangeOfTheIndexKeepsTheOldHoldingAndRemovesTheNewBlob) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "old"), "old"), std::nullopt);
  execute(temporary / "data/index.db",
          "CREATE TRIGGER no BEFORE INSERT ON holdings BEGIN SELECT RAISE(ABORT, 'injected'); END");
  const std::optional<Error> error = node.save(expert_row(1, "new"), "new");
  ASSERT_NE(error, std::nullopt);
  EXPECT_THAT(error->message(), HasSubstr("injected"));
  EXPECT_THAT(node.blobs_on_disk(), ElementsAre(to_hex(hash_of("old"))));
  EXPECT_EQ(node.store().usage().blob_bytes, 3U);
  execute(temporary / "data/index.db", "DROP TRIGGER no");
  ASSERT_TRUE(node.open());
  ASSERT_THAT(node.rows(), SizeIs(1));
  EXPECT_EQ(node.rows()[0].hash, hash_of("old"));
  EXPECT_EQ(node.save(expert_row(1, "new"), "new"), std::nullopt);
}

TEST(Index, FailedUnloadKeepsTheHoldingAndItsBlob) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "old"), "old"), std::nullopt);
  execute(temporary / "data/index.db",
          "CREATE TRIGGER no BEFORE DELETE ON blobs BEGIN SELECT RAISE(ABORT, 'injected'); END");
  EXPECT_FALSE(node.call(work::RemoveHolding{{"m", 3}, 1}));
  execute(temporary / "data/index.db", "DROP TRIGGER no");
  EXPECT_EQ(node.read(hash_of("old")), "old");
  ASSERT_TRUE(node.open());
  EXPECT_THAT(node.rows(), SizeIs(1));
}

}  // namespace
}  // namespace tenzro::store
