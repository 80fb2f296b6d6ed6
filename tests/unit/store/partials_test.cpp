// Blobs in pieces: order, resumption, the hash, room, leases; and every file call failing.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_store.hpp"
#include "support/faulty_file_system.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryDirectory;
using work::Leftover;

const std::string kBlob = "0123456789abcdef";

Result<work::OpenedPartial> open_partial(NodeStore& node, std::string_view blob) {
  const auto result = node.call(work::OpenPartial{hash_of(blob), blob.size()});
  if (!result) return fail(result.error());
  return std::get<work::OpenedPartial>(*result);
}

Result<BlobHash> write(NodeStore& node, std::string_view blob, std::size_t offset,
                       std::string_view piece) {
  const auto result =
      node.call(work::WritePartial{hash_of(blob), offset, BufferRef::copy_of(piece)});
  if (!result) return fail(result.error());
  return std::get<work::WrittenPartial>(*result).piece_hash;
}

Result<bool> finish(NodeStore& node, std::string_view blob) {
  const auto result = node.call(work::FinishPartial{hash_of(blob)});
  if (!result) return fail(result.error());
  return std::get<work::FinishedPartial>(*result).is_intact;
}

Status close_partial(NodeStore& node, std::string_view blob, Leftover leftover) {
  const auto result = node.call(work::ClosePartial{hash_of(blob), leftover});
  if (!result) return fail(result.error());
  return {};
}

bool release(NodeStore& node, std::string_view blob, bool is_kept = false) {
  const auto result = node.call(work::ReleaseBlob{hash_of(blob), 1, is_kept});
  return result && std::get<work::Removed>(*result).existed;
}

/// The whole of it, in two pieces.
Result<bool> fetch(NodeStore& node, std::string_view blob) {
  const auto opened = open_partial(node, blob);
  if (!opened) return fail(opened.error());
  const std::size_t half = blob.size() / 2;
  for (const std::size_t offset : {half, std::size_t{0}}) {
    const auto written = write(node, blob, offset, blob.substr(offset, half + blob.size() % 2));
    if (!written) return fail(written.error());
  }
  return finish(node, blob);
}

std::vector<std::string> partial_files(const NodeStore& node) {
  return testing::names_in(node.blob_dir() + "/partial");
}

TEST(Partials, PiecesInAnyOrderBecomeTheBlob) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  const auto opened = open_partial(node, kBlob);
  ASSERT_TRUE(opened);
  EXPECT_FALSE(opened->is_complete);
  EXPECT_THAT(opened->there, IsEmpty());
  EXPECT_EQ(write(node, kBlob, 10, "abcdef"), hash_of("abcdef"));
  EXPECT_EQ(write(node, kBlob, 4, "456789"), hash_of("456789"));
  EXPECT_FALSE(node.read(hash_of(kBlob)));  // nobody sees it before its end
  EXPECT_TRUE(write(node, kBlob, 0, "0123"));
  EXPECT_EQ(finish(node, kBlob), true);
  EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
  EXPECT_THAT(partial_files(node), IsEmpty());
}

TEST(Partials, MissingPiecesAreNotFinished) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(open_partial(node, kBlob));
  ASSERT_TRUE(write(node, kBlob, 0, "0123"));
  EXPECT_EQ(finish(node, kBlob).error().code, ErrorCode::invalid_params);
}

TEST(Partials, WrongBytesAreNotSeenAndCanBeWrittenOver) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(open_partial(node, kBlob));
  ASSERT_TRUE(write(node, kBlob, 0, "01234567"));
  ASSERT_TRUE(write(node, kBlob, 8, "89ABcdef"));
  EXPECT_EQ(finish(node, kBlob), false);
  EXPECT_FALSE(node.read(hash_of(kBlob)));
  ASSERT_TRUE(write(node, kBlob, 10, "ab"));
  EXPECT_EQ(finish(node, kBlob), true);
  EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
}

TEST(Partials, PiecesOutsideTheBlobAndOfNoOpenPartialAreRefused) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  EXPECT_EQ(write(node, kBlob, 0, "0").error().code, ErrorCode::not_found);
  EXPECT_EQ(finish(node, kBlob).error().code, ErrorCode::not_found);
  ASSERT_TRUE(open_partial(node, kBlob));
  EXPECT_EQ(write(node, kBlob, 16, "0").error().code, ErrorCode::invalid_params);
  EXPECT_EQ(write(node, kBlob, 15, "f0").error().code, ErrorCode::invalid_params);
  EXPECT_EQ(write(node, kBlob, SIZE_MAX, "0").error().code, ErrorCode::invalid_params);
  EXPECT_EQ(write(node, kBlob, 0, "").error().code, ErrorCode::invalid_params);
}

TEST(Partials, RestartGoesOnWhereItWas) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(open_partial(node, kBlob));
  ASSERT_TRUE(write(node, kBlob, 0, "0123"));
  ASSERT_TRUE(write(node, kBlob, 4, "45"));
  ASSERT_TRUE(write(node, kBlob, 10, "ab"));
  ASSERT_TRUE(node.open());  // as a kill would: nothing was closed
  const auto opened = open_partial(node, kBlob);
  ASSERT_TRUE(opened);
  EXPECT_THAT(opened->there, ElementsAre(work::ByteRange{0, 6}, work::ByteRange{10, 12}));
  ASSERT_TRUE(write(node, kBlob, 6, "6789"));
  ASSERT_TRUE(write(node, kBlob, 12, "cdef"));
  EXPECT_EQ(finish(node, kBlob), true);
  EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
}

TEST(Partials, RecordCutShortByAKillIsPassedOver) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(open_partial(node, kBlob));
  ASSERT_TRUE(write(node, kBlob, 0, "0123"));
  ASSERT_TRUE(write(node, kBlob, 8, "89"));
  node.close();
  const std::string map = node.blob_dir() + "/partial/" + to_hex(hash_of(kBlob)) + ".map";
  std::filesystem::resize_file(map, std::filesystem::file_size(map) - 1);
  EXPECT_THAT(open_partial(node, kBlob)->there, ElementsAre(work::ByteRange{0, 4}));
  ASSERT_TRUE(write(node, kBlob, 4, "4567"));
  node.close();
  EXPECT_THAT(open_partial(node, kBlob)->there, ElementsAre(work::ByteRange{0, 8}));
}

TEST(Partials, MapThatTellsOfMoreThanThereIsBeginsAnew) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(open_partial(node, kBlob));
  ASSERT_TRUE(write(node, kBlob, 0, "0123"));
  node.close();
  const std::string bytes = node.blob_dir() + "/partial/" + to_hex(hash_of(kBlob)) + ".part";
  std::filesystem::resize_file(bytes, 2);  // what a power cut may leave
  EXPECT_THAT(open_partial(node, kBlob)->there, IsEmpty());
}

TEST(Partials, FilesOfNoPartialAreRemovedOnOpen) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.open());
  node.close();
  std::ofstream(node.blob_dir() + "/partial/junk") << "x";
  std::ofstream(node.blob_dir() + "/partial/" + to_hex(hash_of("a")) + ".part") << "x";
  ASSERT_TRUE(node.open());
  EXPECT_THAT(partial_files(node), IsEmpty());
}

TEST(Partials, AnotherSizeBeginsAnew) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.call(work::OpenPartial{hash_of(kBlob), 99}));
  ASSERT_TRUE(write(node, kBlob, 0, "0123"));
  EXPECT_THAT(open_partial(node, kBlob)->there, IsEmpty());
  EXPECT_TRUE(write(node, kBlob, 8, "89abcdef"));
  EXPECT_TRUE(write(node, kBlob, 0, "01234567"));
  EXPECT_EQ(finish(node, kBlob), true);
}

TEST(Partials, WholeSizeIsReservedBeforeTheFirstByte) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.disk_budget_bytes = 20});
  ASSERT_TRUE(node.publish("12345"));
  const auto refused = open_partial(node, kBlob);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  EXPECT_THAT(refused.error().message(), HasSubstr("5 of 20 bytes are used, 16 more do not fit"));
  EXPECT_THAT(partial_files(node), IsEmpty());
  EXPECT_EQ(node.store().usage().blob_bytes, 5U);
}

TEST(Partials, BlobLargerThanTheDiskIsRefusedWithTheNumbers) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.blob_bytes_max = std::uint64_t{1} << 60U});
  const auto refused = node.call(work::OpenPartial{hash_of(kBlob), std::uint64_t{1} << 59U});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  EXPECT_THAT(refused.error().message(), HasSubstr("bytes are free"));
  EXPECT_THAT(partial_files(node), IsEmpty());
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
}

TEST(Partials, KeptOnesGiveWayToABlob) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.disk_budget_bytes = 20});
  ASSERT_TRUE(open_partial(node, kBlob));
  ASSERT_TRUE(write(node, kBlob, 0, "0123"));
  ASSERT_FALSE(node.publish("12345"));  // it is being written
  ASSERT_TRUE(close_partial(node, kBlob, Leftover::kept));
  EXPECT_EQ(node.store().usage().blob_bytes, 16U);
  ASSERT_TRUE(node.publish("12345"));
  EXPECT_EQ(node.store().usage().blob_bytes, 5U);
  EXPECT_THAT(partial_files(node), IsEmpty());
}

TEST(Partials, RemovedOnesGiveTheirRoomBack) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.disk_budget_bytes = 20});
  ASSERT_TRUE(open_partial(node, kBlob));
  ASSERT_TRUE(write(node, kBlob, 0, "0123"));
  ASSERT_TRUE(close_partial(node, kBlob, Leftover::removed));
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
  EXPECT_THAT(partial_files(node), IsEmpty());
}

TEST(Partials, OnlyTheLatestAreKept) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  for (char name = 'a'; name < 'm'; ++name) {
    const std::string blob(8, name);
    ASSERT_TRUE(open_partial(node, blob));
    ASSERT_TRUE(write(node, blob, 0, "x"));
    ASSERT_TRUE(close_partial(node, blob, Leftover::kept));
  }
  EXPECT_EQ(partial_files(node).size(), 16U);  // eight, a map each
  EXPECT_THAT(open_partial(node, "llllllll")->there, ElementsAre(work::ByteRange{0, 1}));
  EXPECT_THAT(open_partial(node, "aaaaaaaa")->there, IsEmpty());
}

TEST(Partials, FetchedBlobGoesWithItsLeaseUnlessSomethingNeedsIt) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(fetch(node, kBlob), true);
  EXPECT_EQ(node.store().usage().blob_bytes, 16U);
  EXPECT_TRUE(release(node, kBlob));
  EXPECT_FALSE(node.read(hash_of(kBlob)));
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
  EXPECT_FALSE(release(node, kBlob));

  ASSERT_EQ(fetch(node, kBlob), true);
  ASSERT_EQ(node.save(expert_row(1, kBlob), kBlob), std::nullopt);
  EXPECT_EQ(node.store().usage().blob_bytes, 16U);  // counted once
  EXPECT_TRUE(release(node, kBlob));
  EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
  EXPECT_TRUE(node.remove(expert_row(1, kBlob)));
  EXPECT_FALSE(node.read(hash_of(kBlob)));
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
}

TEST(Partials, FetchedBlobBecomesAHoldingWithoutItsBytesBeingSentAgain) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(fetch(node, kBlob), true);
  EXPECT_EQ(node.save_again(expert_row(0, kBlob)), std::nullopt);
  EXPECT_TRUE(release(node, kBlob));
  EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
}

TEST(Partials, LeaseKeepsABlobWhoseHoldingGoes) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(node.save(expert_row(1, kBlob), kBlob), std::nullopt);
  const auto opened = open_partial(node, kBlob);
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->is_complete);
  EXPECT_TRUE(node.remove(expert_row(1, kBlob)));
  EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
  EXPECT_EQ(node.store().usage().blob_bytes, 16U);
  EXPECT_TRUE(release(node, kBlob));
  EXPECT_FALSE(node.read(hash_of(kBlob)));
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
}

TEST(Partials, ReleasedBlobCanBeKept) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(fetch(node, kBlob), true);
  EXPECT_TRUE(release(node, kBlob, true));
  ASSERT_TRUE(node.open());
  EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
  EXPECT_EQ(node.store().usage().blob_bytes, 16U);
}

TEST(Partials, LeasesEndWithTheProcess) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_EQ(fetch(node, kBlob), true);
  ASSERT_TRUE(node.open());
  EXPECT_FALSE(node.read(hash_of(kBlob)));
  EXPECT_THAT(node.blobs_on_disk(), IsEmpty());
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
}

TEST(Partials, RangeComesWithTheSizeOfItsBlob) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.publish(kBlob));
  const auto read = node.call(work::ReadBlobRange{hash_of(kBlob), 10, 3});
  ASSERT_TRUE(read);
  EXPECT_EQ(std::get<work::BlobRange>(*read).bytes.text(), "abc");
  EXPECT_EQ(std::get<work::BlobRange>(*read).size_bytes, 16U);
  EXPECT_EQ(node.call(work::ReadBlobRange{hash_of(kBlob), 10, 7}).error().code,
            ErrorCode::invalid_params);
  EXPECT_EQ(node.call(work::ReadBlobRange{hash_of("absent"), 0, 0}).error().code,
            ErrorCode::not_found);
}

class PartialFaults : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Errors, PartialFaults, ::testing::Values(ENOSPC, EIO));

TEST_P(PartialFaults, WhicheverCallFailsTheFetchCanBeDoneAgain) {
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth) + " fails");
    TemporaryDirectory temporary;
    FaultyFileSystem files;
    NodeStore node(temporary / "data", files);
    ASSERT_TRUE(node.open());
    files.arm(nth, GetParam(), FaultyFileSystem::Extent::one_call);
    const Result<bool> fetched = fetch(node, kBlob);
    files.disarm();
    const bool has_fired = files.has_fired();
    if (fetched) {
      EXPECT_EQ(*fetched, true);
      EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
    } else {
      EXPECT_EQ(fetched.error().code, GetParam() == ENOSPC ? ErrorCode::no_space : ErrorCode::io)
          << fetched.error().message();
      EXPECT_FALSE(node.read(hash_of(kBlob)));
      EXPECT_TRUE(close_partial(node, kBlob, Leftover::removed));
      EXPECT_EQ(node.store().usage().blob_bytes, 0U);
      EXPECT_THAT(partial_files(node), IsEmpty());
      EXPECT_EQ(fetch(node, kBlob), true);
    }
    EXPECT_EQ(node.store().usage().blob_bytes, 16U);
    EXPECT_TRUE(release(node, kBlob, true));
    ASSERT_TRUE(node.open());
    EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
    EXPECT_THAT(partial_files(node), IsEmpty());
    if (!has_fired) {
      EXPECT_GT(nth, 10U);
      return;
    }
  }
}

TEST_P(PartialFaults, KillAtAnyCallLosesNothingThatWasThereBefore) {
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth) + " and all after it fail");
    TemporaryDirectory temporary;
    FaultyFileSystem files;
    NodeStore node(temporary / "data", files);
    ASSERT_EQ(node.save(expert_row(1, "old"), "old"), std::nullopt);
    files.arm(nth, GetParam(), FaultyFileSystem::Extent::all_from_then_on);
    static_cast<void>(fetch(node, kBlob));
    const bool has_fired = files.has_fired();
    node.close();
    files.disarm();
    ASSERT_TRUE(node.open());
    EXPECT_EQ(node.read(hash_of("old")), "old");
    EXPECT_FALSE(node.read(hash_of(kBlob)));  // no row names it
    EXPECT_EQ(fetch(node, kBlob), true);
    EXPECT_EQ(node.store().usage().blob_bytes, 19U);
    if (!has_fired) return;
  }
}

TEST(Partials, ShortWritesAreGoneOnWith) {
  TemporaryDirectory temporary;
  FaultyFileSystem files;
  NodeStore node(temporary / "data", files);
  ASSERT_TRUE(node.open());
  files.limit_writes(3);
  EXPECT_EQ(fetch(node, kBlob), true);
  EXPECT_EQ(node.read(hash_of(kBlob)), kBlob);
}

}  // namespace
}  // namespace tenzro::store
