// Blobs: ranges, the disk budget, damage and quarantine.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"

#include "node_store.hpp"
#include "support/faulty_file_system.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TemporaryDirectory;

TEST(Blobs, RangesAreReadAndThoseOutsideRefused) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const BlobHash hash = *node.publish("0123456789");
  EXPECT_EQ(node.read_range(hash, 0, 10), "0123456789");
  EXPECT_EQ(node.read_range(hash, 3, 4), "3456");
  EXPECT_EQ(node.read_range(hash, 10, 0), "");
  for (const auto& [offset, length] : {std::pair<std::uint64_t, std::uint64_t>{0, 11},
                                       {11, 0},
                                       {9, 2},
                                       {UINT64_MAX, 1},
                                       {1, UINT64_MAX}}) {
    EXPECT_EQ(node.read_range(hash, offset, length).error().code, ErrorCode::invalid_params);
  }
  EXPECT_EQ(node.read_range(hash_of("absent"), 0, 0).error().code, ErrorCode::not_found);
}

TEST(Blobs, SizeIsToldAndAnAbsentBlobIsNotFound) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const BlobHash hash = *node.publish("0123456789");
  const auto size_of = [&node](const BlobHash& blob) {
    return wait_for<Result<std::uint64_t>>(
        [&](auto done) { node.store().stat_blob(blob, std::move(done)); });
  };
  EXPECT_EQ(size_of(hash), 10U);
  EXPECT_EQ(size_of(hash_of("absent")).error().code, ErrorCode::not_found);
}

TEST(Blobs, WholeReadCanBeBounded) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const BlobHash hash = *node.publish("0123456789");
  EXPECT_TRUE(node.call(work::ReadBlob{.hash = hash, .bytes_max = 10}));
  const work::StoreResult refused = node.call(work::ReadBlob{.hash = hash, .bytes_max = 9});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::infrastructure);
  EXPECT_THAT(refused.error().message(), HasSubstr("has 10 bytes, more than the 9 of one reply"));
}

TEST(Blobs, BytesAreHashedWhileTheyAreReadWhereAskedFor) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const std::string large((3U << 20U) + 5, 'x');  // more than one piece
  for (const std::string& blob : {std::string("small"), large}) {
    const BlobHash hash = *node.publish(blob);
    const work::StoreResult hashed = node.call(work::ReadBlob{.hash = hash, .wants_hash = true});
    ASSERT_TRUE(hashed);
    EXPECT_EQ(std::get<work::ReadBytes>(*hashed).hash, hash);
    EXPECT_EQ(std::get<work::ReadBytes>(*hashed).bytes.text(), blob);
    const work::StoreResult plain = node.call(work::ReadBlob{.hash = hash});
    EXPECT_EQ(std::get<work::ReadBytes>(*plain).hash, std::nullopt);
  }
}

TEST(Blobs, ReadOfALargeOneThatBreaksOffWhileItIsHashedIsAnError) {
  TemporaryDirectory temporary;
  testing::FaultyFileSystem files;
  NodeStore node(temporary / "data", files);
  const BlobHash hash = *node.publish(std::string(3U << 20U, 'x'));
  for (const std::size_t nth : {2U, 7U, 13U}) {  // open, then twelve preads
    files.arm(nth, EIO, testing::FaultyFileSystem::Extent::one_call);
    const work::StoreResult broken = node.call(work::ReadBlob{.hash = hash, .wants_hash = true});
    files.disarm();
    ASSERT_FALSE(broken) << nth;
    EXPECT_EQ(broken.error().code, ErrorCode::io);
  }
  EXPECT_TRUE(node.call(work::ReadBlob{.hash = hash, .wants_hash = true}));
}

TEST(Blobs, LargeOneIsGivenWhileItIsReadAndItsHashWithTheLastByte) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  std::string large((3U << 20U) + 5, 'x');
  for (std::size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>(i / 1000);
  const BlobHash hash = *node.publish(large);
  for (const bool wants_hash : {true, false}) {
    const work::StoreResult result =
        node.call(work::ReadBlob{.hash = hash, .wants_hash = wants_hash, .may_arrive = true});
    ASSERT_TRUE(result);
    const auto blob = std::get<work::Arriving>(*result).blob;
    ASSERT_EQ(blob->size_bytes(), large.size());
    std::vector<std::byte> scratch;
    const auto end = blob->view(large.size() - 10, 10, scratch);
    ASSERT_TRUE(end);
    EXPECT_EQ(std::memcmp(end->data(), large.data() + large.size() - 10, 10), 0);
    EXPECT_TRUE(scratch.empty()) << "a view copies nothing";
    std::string some(2000, '.');
    ASSERT_TRUE(blob->read(1'000'500, std::as_writable_bytes(std::span(some))));
    EXPECT_EQ(some, large.substr(1'000'500, 2000));
    EXPECT_EQ(blob->hash(), hash);
    EXPECT_FALSE(blob->view(large.size() - 10, 11, scratch));
    EXPECT_FALSE(blob->view(UINT64_MAX, 1, scratch));
  }
}

TEST(Blobs, OneOfMoreBytesThanItsReaderReckonsWithIsOpenedInstead) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const BlobHash hash = *node.publish("0123456789");
  for (const std::uint64_t most : {std::uint64_t{9}, std::uint64_t{10}}) {
    const work::StoreResult result =
        node.call(work::ReadBlob{.hash = hash, .may_arrive = true, .whole_bytes_max = most});
    ASSERT_TRUE(result);
    EXPECT_EQ(std::holds_alternative<work::OpenedBlob>(*result), most == 9) << most;
  }
}

TEST(Blobs, SmallOneComesWholeAlsoWhereItMayArrive) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const BlobHash hash = *node.publish("small");
  const work::StoreResult result =
      node.call(work::ReadBlob{.hash = hash, .wants_hash = true, .may_arrive = true});
  ASSERT_TRUE(result);
  EXPECT_EQ(std::get<work::ReadBytes>(*result).hash, hash);
}

TEST(Blobs, OneThatBreaksOffWhileItArrivesIsAnErrorForWhoeverWaits) {
  TemporaryDirectory temporary;
  testing::FaultyFileSystem files;
  NodeStore node(temporary / "data", files);
  const BlobHash hash = *node.publish(std::string(3U << 20U, 'x'));
  for (const std::size_t nth : {2U, 7U, 13U}) {  // open, then twelve preads
    files.arm(nth, EIO, testing::FaultyFileSystem::Extent::one_call);
    const work::StoreResult result =
        node.call(work::ReadBlob{.hash = hash, .wants_hash = true, .may_arrive = true});
    ASSERT_TRUE(result);
    const auto blob = std::get<work::Arriving>(*result).blob;
    std::vector<std::byte> scratch;
    const auto last = blob->view(blob->size_bytes() - 1, 1, scratch);
    const auto whole = blob->hash();
    files.disarm();
    ASSERT_FALSE(last) << nth;
    EXPECT_EQ(last.error().code, ErrorCode::io);
    ASSERT_FALSE(whole) << nth;
    EXPECT_EQ(whole.error().code, ErrorCode::io);
  }
}

TEST(Blobs, OneThatIsOpenIsReadInPartsAlsoAfterItWentAndItsEndIsAnError) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const BlobHash hash = *node.publish("0123456789");
  const work::StoreResult opened = node.call(work::OpenBlob{hash});
  ASSERT_TRUE(opened);
  const auto& source = *std::get<work::OpenedBlob>(*opened).source;
  EXPECT_EQ(source.size_bytes(), 10U);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary / "data")) {
    if (entry.path().filename() == to_hex(hash)) std::filesystem::remove(entry.path());
  }
  std::string bytes(4, '.');
  ASSERT_TRUE(source.read(3, std::as_writable_bytes(std::span(bytes))));
  EXPECT_EQ(bytes, "3456");
  EXPECT_EQ(source.read(8, std::as_writable_bytes(std::span(bytes))).error().code, ErrorCode::io);
  EXPECT_EQ(node.call(work::OpenBlob{hash_of("absent")}).error().code, ErrorCode::not_found);
}

TEST(Blobs, FileIsToldFromOneInItsPlaceAndFromItselfBeforeItWasWrittenTo) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const std::string blob = "0123456789";
  const BlobHash hash = hash_of(blob);
  const auto saved = node.call(work::SaveHolding{expert_row(1, blob), BufferRef::copy_of(blob)});
  ASSERT_TRUE(saved);
  const work::FileMark mark = std::get<work::Saved>(*saved).file;
  EXPECT_NE(mark, 0U);
  const auto marks = [&] {
    const auto read = [&](bool wants_hash) {
      return std::get<work::ReadBytes>(
                 *node.call(work::ReadBlob{.hash = hash, .wants_hash = wants_hash}))
          .file;
    };
    return std::set<work::FileMark>{
        read(false), read(true), std::get<work::OpenedBlob>(*node.call(work::OpenBlob{hash})).file};
  };
  EXPECT_EQ(marks(), std::set{mark});
  const std::string path = node.path_of(hash);
  const auto time = std::filesystem::last_write_time(path);
  // Another file of that size and age.
  std::ofstream(path + ".x") << "0123456780";
  std::filesystem::last_write_time(path + ".x", time);
  std::filesystem::rename(path + ".x", path);
  const std::set<work::FileMark> replaced = marks();
  ASSERT_EQ(replaced.size(), 1U);
  EXPECT_NE(*replaced.begin(), mark);
  // The same file, one byte longer.
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::ofstream(path, std::ios::app) << "1";
  const std::set<work::FileMark> written = marks();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_NE(*written.begin(), *replaced.begin());
}

TEST(Blobs, ErrorsOfReadsNameTheBlobAndNotItsFile) {
  TemporaryDirectory temporary;
  testing::FaultyFileSystem files;
  NodeStore node(temporary / "data", files);
  const std::string blob(3U << 20U, 'x');
  const BlobHash hash = *node.publish(blob);
  const auto open = [&] {
    return std::get<work::OpenedBlob>(*node.call(work::OpenBlob{hash})).source;
  };
  std::vector<Error> errors;
  const auto note = [&](const auto& result) {
    ASSERT_FALSE(result);
    errors.push_back(result.error());
  };
  std::string some(10, '.');
  const auto source = open();
  for (const std::size_t nth : {1U, 2U}) {  // open, pread
    const auto broken = [&](const work::StoreOp& op) {
      files.arm(nth, EIO, testing::FaultyFileSystem::Extent::one_call);
      const work::StoreResult result = node.call(op);
      files.disarm();
      return result;
    };
    note(broken(work::ReadBlob{.hash = hash}));
    note(broken(work::ReadBlob{.hash = hash, .wants_hash = true}));
    note(broken(work::ReadBlobRange{hash, 0, 10}));
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary / "data")) {
    if (entry.path().filename() == to_hex(hash)) std::filesystem::resize_file(entry.path(), 100);
  }
  note(source->read(1000, std::as_writable_bytes(std::span(some))));
  EXPECT_EQ(errors.back().message(), "blob " + to_hex(hash) + ": became shorter while it was read");
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, ErrorCode::io);
    EXPECT_EQ(error.message().find("blob " + to_hex(hash) + ": "), 0U) << error.message();
    EXPECT_EQ(error.message().find(node.blob_dir()), std::string::npos) << error.message();
  }
}

TEST(Blobs, EmptyBlobIsNotPublished) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  EXPECT_EQ(node.publish("").error().code, ErrorCode::invalid_params);
}

TEST(Blobs, BudgetRefusesWithTheNumbersAndDropsNothing) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .disk_budget_bytes = 1000});
  const std::string blob(600, 'a');
  ASSERT_EQ(node.save(expert_row(1, blob), blob), std::nullopt);
  const std::string other(401, 'b');
  const std::optional<Error> error = node.save(expert_row(2, other), other);
  ASSERT_NE(error, std::nullopt);
  EXPECT_EQ(error->code, ErrorCode::no_space);
  EXPECT_EQ(error->message(), "disk budget: 600 of 1000 bytes are used, 401 more do not fit");
  EXPECT_THAT(node.blobs_on_disk(), ElementsAre(to_hex(hash_of(blob))));
  EXPECT_EQ(node.store().usage().blob_bytes, 600U);

  const std::string fitting(400, 'c');
  EXPECT_EQ(node.save(expert_row(2, fitting), fitting), std::nullopt);
  EXPECT_EQ(node.save(expert_row(3, fitting), fitting), std::nullopt);  // the same bytes count once
  EXPECT_EQ(node.store().usage().blob_bytes, 1000U);
  EXPECT_TRUE(node.remove(expert_row(1, blob)));
  EXPECT_EQ(node.publish(other), hash_of(other));
  ASSERT_TRUE(node.open());
  EXPECT_EQ(node.store().usage().blob_bytes, 801U);
  EXPECT_EQ(node.store().usage().budget_bytes, 1000U);
}

TEST(Blobs, BlobAboveTheLargestIsRefused) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .blob_bytes_max = 8});
  EXPECT_TRUE(node.publish("12345678"));
  const Result<BlobHash> refused = node.publish("123456789");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("of 9 bytes is larger than the 8 bytes"));
}

TEST(Blobs, SavingAgainHealsADamagedFile) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "good bytes"), "good bytes"), std::nullopt);
  const BlobHash hash = hash_of("good bytes");
  for (const std::string damage : {"bad! bytes", "good", ""}) {
    testing::write_text(node.path_of(hash), damage);
    ASSERT_EQ(node.save(expert_row(1, "good bytes"), "good bytes"), std::nullopt);
    EXPECT_EQ(node.read(hash), "good bytes");
  }
  EXPECT_EQ(node.store().usage().blob_bytes, 10U);
}

TEST(Blobs, DamagedBlobGoesToQuarantineWithItsHoldings) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "good bytes"), "good bytes"), std::nullopt);
  const BlobHash hash = hash_of("good bytes");
  testing::write_text(node.path_of(hash), "bad! bytes");
  EXPECT_EQ(node.quarantine(hash), true);
  EXPECT_EQ(testing::read_text(node.blob_dir() + "/quarantine/" + to_hex(hash)), "bad! bytes");
  EXPECT_EQ(node.read(hash).error().code, ErrorCode::not_found);
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
  EXPECT_FALSE(node.remove(expert_row(1, "good bytes")));
  ASSERT_TRUE(node.open());
  EXPECT_THAT(node.rows(), IsEmpty());
  EXPECT_THAT(node.warnings(), IsEmpty());

  ASSERT_EQ(node.save(expert_row(1, "good bytes"), "good bytes"),
            std::nullopt);  // a fresh load heals
  EXPECT_EQ(node.read(hash), "good bytes");
}

TEST(Blobs, IntactBlobIsNotQuarantined) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "good bytes"), "good bytes"), std::nullopt);
  EXPECT_EQ(node.quarantine(hash_of("good bytes")), false);
  EXPECT_EQ(node.read(hash_of("good bytes")), "good bytes");
  ASSERT_TRUE(node.open());
  EXPECT_THAT(node.rows(), SizeIs(1));
}

TEST(Blobs, QuarantineOfABlobWhoseFileIsGoneForgetsIt) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, "gone"), "gone"), std::nullopt);
  std::filesystem::remove(node.path_of(hash_of("gone")));
  EXPECT_EQ(node.quarantine(hash_of("gone")), true);
  EXPECT_EQ(node.quarantine(hash_of("gone")), false);
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
  ASSERT_TRUE(node.open());
  EXPECT_THAT(node.warnings(), IsEmpty());
}

TEST(Blobs, QuarantineKeepsTheNewestFew) {
  constexpr int kDamaged = 12;
  constexpr std::size_t kKept = 8;
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  std::string last;
  for (int i = 0; i < kDamaged; ++i) {
    const std::string blob = "blob " + std::to_string(i);
    const BlobHash hash = *node.publish(blob);
    testing::write_text(node.path_of(hash), "damaged");
    ASSERT_EQ(node.quarantine(hash), true);
    last = to_hex(hash);
  }
  const std::vector<std::string> kept = testing::names_in(node.blob_dir() + "/quarantine");
  EXPECT_THAT(kept, SizeIs(kKept));
  EXPECT_THAT(kept, ::testing::Contains(last));
}

TEST(Blobs, DirectoryOfAnotherNodeIsBusy) {
  TemporaryDirectory temporary;
  NodeStore one(temporary / "one", Options{.blob_dir = temporary / "common"});
  NodeStore two(temporary / "two", Options{.blob_dir = temporary / "common"});
  ASSERT_TRUE(one.publish("x"));
  EXPECT_TRUE(std::filesystem::exists(temporary / "common/quarantine"));
  const Status refused = two.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::busy);
  EXPECT_THAT(refused.error().message(), HasSubstr("blob directory '" + temporary / "common"));
}

}  // namespace
}  // namespace tenzro::store
