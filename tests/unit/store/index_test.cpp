// The index: damage is refused by name and never repaired by forgetting; a failed change changes
// nothing.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "tenzro/base/prng.hpp"

#include "node_store.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

/// The first column of the first row.
int ask(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr), SQLITE_OK);
  EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
  const int answer = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return answer;
}

/// All of a holding, comparable.
auto fields(const work::HoldingRow& row) {
  const work::ExpertFacts& facts = row.facts;
  return std::tuple(row.layer.model, row.layer.layer, row.expert, row.hash, row.source_uri,
                    facts.d_model, facts.d_ff, facts.gate_type, facts.up_type, facts.down_type,
                    facts.resident_bytes, row.gate_experts, row.gate_d_model, row.gate_bytes);
}

using Fields = decltype(fields(work::HoldingRow()));

std::vector<Fields> fields_of(const std::vector<work::HoldingRow>& rows) {
  std::vector<Fields> all;
  for (const work::HoldingRow& row : rows) all.push_back(fields(row));
  return all;
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

/// The file as version 1 made it: the same rows without digests.
void make_version_1(const std::string& path) {
  execute(path,
          "ALTER TABLE holdings DROP COLUMN digest; ALTER TABLE blobs DROP COLUMN digest;"
          "DROP TABLE damaged_rows; PRAGMA user_version = 1");
}

TEST(Index, ImpossibleRowIsRefused) {
  Fixture fixture;
  fixture.fill();
  make_version_1(fixture.index);
  execute(fixture.index, "UPDATE holdings SET up_type = 'q9_9' WHERE expert = 5");
  fixture.expect_refused("impossible values");
}

TEST(Index, LaterVersionIsRefusedAndNotTouched) {
  Fixture fixture;
  fixture.fill();
  execute(fixture.index, "PRAGMA user_version = 3");
  fixture.expect_refused("its schema version is 3, this program knows 2");
}

TEST(Index, FileOfVersionOneKeepsEveryRowAndGetsDigests) {
  Fixture fixture;
  fixture.fill();
  ASSERT_TRUE(fixture.node.open());
  const std::vector<Fields> rows = fields_of(fixture.node.rows());
  fixture.node.close();
  make_version_1(fixture.index);
  ASSERT_TRUE(fixture.node.open());
  EXPECT_EQ(fields_of(fixture.node.rows()), rows);
  EXPECT_THAT(fixture.node.warnings(), IsEmpty());
  fixture.node.close();
  execute(fixture.index, "UPDATE holdings SET d_ff = d_ff + 1 WHERE expert = 5");
  ASSERT_TRUE(fixture.node.open());
  EXPECT_THAT(fixture.node.rows(), SizeIs(99));
}

TEST(Index, DamagedHoldingIsSetAsideOnceAndTheOthersStay) {
  Fixture fixture;
  fixture.fill();
  for (const char* change : {"UPDATE holdings SET hash = zeroblob(32) WHERE expert = 5",
                             "UPDATE holdings SET gate_type = 'f16' WHERE expert = 6",
                             "UPDATE holdings SET saved = saved + 1000 WHERE expert = 7",
                             "UPDATE holdings SET source_uri = NULL WHERE expert = 8",
                             "UPDATE holdings SET model = 'n' WHERE expert = 9",
                             "UPDATE holdings SET digest = NULL WHERE expert = 10",
                             "UPDATE holdings SET d_model = 'text' WHERE expert = 11"}) {
    execute(fixture.index, change);
  }
  ASSERT_TRUE(fixture.node.open());
  EXPECT_THAT(fixture.node.rows(), SizeIs(93));
  for (const work::HoldingRow& row : fixture.node.rows()) {
    EXPECT_TRUE(*row.expert < 5 || *row.expert > 11);
  }
  EXPECT_THAT(fixture.node.warnings(),
              ElementsAre(AllOf(HasSubstr(fixture.index), HasSubstr("7 experts and gates"))));
  EXPECT_THAT(fixture.node.blobs_on_disk(), SizeIs(100));
  ASSERT_TRUE(fixture.node.open());
  EXPECT_THAT(fixture.node.warnings(), IsEmpty());
  EXPECT_EQ(fixture.node.save(expert_row(5, "blob 5"), "blob 5"), std::nullopt);
  fixture.node.close();
  EXPECT_EQ(ask(fixture.index, "SELECT count(*) FROM damaged_rows"), 7);
}

TEST(Index, BlobWhoseRowIsDamagedIsFoundAgain) {
  Fixture fixture;
  fixture.fill();
  ASSERT_TRUE(fixture.node.open());
  const Result<BlobHash> published = fixture.node.publish("published");
  ASSERT_TRUE(published);
  const std::uint64_t used = fixture.node.store().usage().blob_bytes;
  fixture.node.close();
  execute(fixture.index, "UPDATE blobs SET size = size + 1");
  ASSERT_TRUE(fixture.node.open());
  EXPECT_THAT(fixture.node.rows(), SizeIs(100));
  EXPECT_THAT(fixture.node.warnings(), ElementsAre(HasSubstr("101 blobs had to be found again")));
  EXPECT_EQ(fixture.node.store().usage().blob_bytes, used);
  ASSERT_TRUE(fixture.node.open());
  EXPECT_THAT(fixture.node.warnings(), IsEmpty());
  EXPECT_EQ(fixture.node.read(*published), "published");
  EXPECT_TRUE(fixture.node.remove(expert_row(5, "blob 5")));
  EXPECT_FALSE(fixture.node.read(hash_of("blob 5"))) << "a holding's blob is not a published one";
}

// Goal: no flipped bit changes what is held. Method: flip one, anywhere; either the file is
// refused, or every row that is listed is one that was saved, a missing one is told, and no blob
// has gone.
TEST(Index, NoFlippedBitGoesUnnoticed) {
  Fixture fixture;
  fixture.fill();
  ASSERT_TRUE(fixture.node.open());
  const std::vector<Fields> saved = fields_of(fixture.node.rows());
  fixture.node.close();
  const std::string good = testing::read_text(fixture.index);
  Prng prng(11);
  std::size_t refused = 0;
  std::size_t set_aside = 0;
  for (int round = 0; round < 150; ++round) {
    std::string bad = good;
    const std::size_t at = static_cast<std::size_t>(prng.below(bad.size()));
    bad[at] = static_cast<char>(static_cast<unsigned char>(bad[at]) ^ (1U << prng.below(8)));
    SCOPED_TRACE("byte " + std::to_string(at));
    for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(fixture.index + suffix);
    testing::write_text(fixture.index, bad);
    if (!fixture.node.open()) {
      ++refused;
      continue;
    }
    for (const Fields& row : fields_of(fixture.node.rows())) {
      EXPECT_NE(std::find(saved.begin(), saved.end(), row), saved.end());
    }
    const bool is_short = fixture.node.rows().size() < saved.size();
    EXPECT_TRUE(!is_short || !fixture.node.warnings().empty());
    set_aside += is_short ? 1U : 0U;
    fixture.node.close();
    ASSERT_THAT(fixture.node.blobs_on_disk(), SizeIs(100));
  }
  EXPECT_GT(refused, 0U);
  EXPECT_GT(set_aside, 0U);
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
