// Uploads: a blob that arrives piece by piece.
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
using testing::TemporaryDirectory;

Status append(NodeStore& node, const std::shared_ptr<Upload>& upload, std::string_view piece) {
  return wait_for<Status>(
      [&](auto done) { node.store().append(upload, BufferRef::copy_of(piece), std::move(done)); });
}

Result<work::Published> finish(NodeStore& node, const std::shared_ptr<Upload>& upload) {
  return wait_for<Result<work::Published>>(
      [&](auto done) { node.store().finish(upload, std::move(done)); });
}

/// Runs after all that was posted before it has released what it held, on a store of one thread.
void drain(NodeStore& node) {
  static_cast<void>(wait_for<Result<std::uint64_t>>(
      [&](auto done) { node.store().stat_blob({}, std::move(done)); }));
}

TEST(Uploads, PiecesBecomeOnePublishedBlob) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.open());
  const auto upload = *node.store().begin_upload(11);
  ASSERT_TRUE(append(node, upload, "hello "));
  ASSERT_TRUE(append(node, upload, ""));
  ASSERT_TRUE(append(node, upload, "world"));
  EXPECT_EQ(node.store().usage().blob_bytes, 11U);
  const Result<work::Published> published = finish(node, upload);
  ASSERT_TRUE(published);
  EXPECT_EQ(published->hash, hash_of("hello world"));
  EXPECT_EQ(published->size_bytes, 11U);
  EXPECT_EQ(node.read(published->hash), "hello world");
  EXPECT_THAT(node.temps_on_disk(), IsEmpty());
  ASSERT_TRUE(node.open());
  EXPECT_EQ(node.read(published->hash), "hello world");
  EXPECT_EQ(node.store().usage().blob_bytes, 11U);
}

TEST(Uploads, UploadOfABlobThatIsThereCountsOnce) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.publish("again"));
  const auto upload = *node.store().begin_upload(std::nullopt);
  ASSERT_TRUE(append(node, upload, "again"));
  EXPECT_EQ(finish(node, upload)->hash, hash_of("again"));
  EXPECT_EQ(node.store().usage().blob_bytes, 5U);
  EXPECT_THAT(node.temps_on_disk(), IsEmpty());
}

TEST(Uploads, DroppedUploadLeavesNothing) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .threads = 1});
  ASSERT_TRUE(node.open());
  auto upload = *node.store().begin_upload(std::nullopt);
  ASSERT_TRUE(append(node, upload, "half of it"));
  EXPECT_THAT(node.temps_on_disk(), ::testing::SizeIs(1));
  upload.reset();
  drain(node);
  EXPECT_THAT(node.temps_on_disk(), IsEmpty());
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
}

TEST(Uploads, EmptyUploadIsRefused) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.open());
  EXPECT_EQ(finish(node, *node.store().begin_upload(0)).error().code, ErrorCode::invalid_params);
  const auto upload = *node.store().begin_upload(0);
  ASSERT_TRUE(append(node, upload, ""));
  EXPECT_EQ(finish(node, upload).error().code, ErrorCode::invalid_params);
  EXPECT_THAT(node.temps_on_disk(), IsEmpty());
}

TEST(Uploads, FinishedUploadTakesNothingMore) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.open());
  const auto upload = *node.store().begin_upload(std::nullopt);
  ASSERT_TRUE(append(node, upload, "x"));
  ASSERT_TRUE(finish(node, upload));
  EXPECT_EQ(append(node, upload, "y").error().code, ErrorCode::cancelled);
  EXPECT_EQ(finish(node, upload).error().code, ErrorCode::cancelled);
}

TEST(Uploads, SizeThatCannotFitIsRefusedAtOnce) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data",
                 Options{.blob_dir = {}, .disk_budget_bytes = 100, .blob_bytes_max = 200});
  ASSERT_TRUE(node.publish(std::string(60, 'x')));
  EXPECT_EQ(node.store().begin_upload(41).error().message(),
            "disk budget: 60 of 100 bytes are used, 41 more do not fit");
  EXPECT_THAT(node.store().begin_upload(201).error().message(),
              HasSubstr("larger than the 200 bytes"));
  EXPECT_TRUE(node.store().begin_upload(40));
}

TEST(Uploads, PieceBeyondTheBudgetEndsTheUploadAndGivesItsBytesBack) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .disk_budget_bytes = 100});
  ASSERT_TRUE(node.open());
  const auto upload = *node.store().begin_upload(std::nullopt);
  ASSERT_TRUE(append(node, upload, std::string(60, 'x')));
  EXPECT_EQ(append(node, upload, std::string(60, 'x')).error().code, ErrorCode::no_space);
  EXPECT_EQ(node.store().usage().blob_bytes, 0U);
  EXPECT_THAT(node.temps_on_disk(), IsEmpty());
  EXPECT_EQ(append(node, upload, "x").error().code, ErrorCode::cancelled);
}

TEST(Uploads, PieceBeyondTheLargestBlobEndsTheUpload) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .blob_bytes_max = 10});
  ASSERT_TRUE(node.open());
  const auto upload = *node.store().begin_upload(std::nullopt);
  ASSERT_TRUE(append(node, upload, "12345"));
  EXPECT_THAT(append(node, upload, "678901").error().message(),
              HasSubstr("larger than the 10 bytes"));
  EXPECT_THAT(node.temps_on_disk(), IsEmpty());
}

TEST(Uploads, SecondPieceBeforeTheFirstIsTakenIsBusyAndHarmless) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.open());
  const auto upload = *node.store().begin_upload(std::nullopt);
  std::latch entered(2);  // both threads of the store are kept busy
  std::latch leave(1);
  std::latch done(3);
  for (int i = 0; i < 2; ++i) {
    node.store().stat_blob({}, [&](const Result<std::uint64_t>&) {
      entered.count_down();
      leave.wait();
      done.count_down();
    });
  }
  entered.wait();
  node.store().append(upload, BufferRef::copy_of("first"), [&](const Status& status) {
    EXPECT_TRUE(status);
    done.count_down();
  });
  EXPECT_EQ(append(node, upload, "second").error().code, ErrorCode::busy);
  EXPECT_EQ(finish(node, upload).error().code, ErrorCode::busy);
  leave.count_down();
  done.wait();
  EXPECT_EQ(finish(node, upload)->hash, hash_of("first"));
}

TEST(Uploads, NumberOfOpenUploadsIsBounded) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data", Options{.blob_dir = {}, .uploads_max = 2});
  ASSERT_TRUE(node.open());
  auto one = *node.store().begin_upload(std::nullopt);
  const auto two = *node.store().begin_upload(std::nullopt);
  EXPECT_EQ(node.store().begin_upload(std::nullopt).error().code, ErrorCode::busy);
  one.reset();
  EXPECT_TRUE(node.store().begin_upload(std::nullopt));
}

TEST(Uploads, UploadThatOutlivesItsStoreCleansUpAfterItself) {
  TemporaryDirectory temporary;
  NodeStore node(temporary / "data");
  ASSERT_TRUE(node.open());
  auto upload = *node.store().begin_upload(std::nullopt);
  ASSERT_TRUE(append(node, upload, "late"));
  node.close();
  upload.reset();
  EXPECT_THAT(node.temps_on_disk(), IsEmpty());
}

}  // namespace
}  // namespace tenzro::store
