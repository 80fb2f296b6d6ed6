// Goal: whichever file call fails, and whether the disk comes back or not, nothing acknowledged is
// lost, nothing half done is seen, and the next start works. Method: run one change with its n-th
// file call failing, for every n that the change makes; look; start again; look.
#include <cerrno>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"

#include "node_store.hpp"
#include "support/faulty_file_system.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TemporaryDirectory;

struct Fault {
  int error;
  FaultyFileSystem::Extent extent;

  [[nodiscard]] bool is_passing() const { return extent == FaultyFileSystem::Extent::one_call; }

  [[nodiscard]] ErrorCode code() const {
    return error == ENOSPC ? ErrorCode::no_space : ErrorCode::io;
  }
};

class FaultSweep : public ::testing::TestWithParam<Fault> {
 protected:
  struct World {
    TemporaryDirectory temporary;
    FaultyFileSystem files;
    NodeStore node{temporary / "data", files};
  };

  /// Runs `change` with the n-th call failing, n = 1, 2, …, until it needs no more calls. `change`
  /// gives the error it met. `look` is told whether it succeeded; it is called before and after a
  /// restart. Gives the last n.
  static std::size_t sweep(const std::function<void(World&)>& prepare,
                           const std::function<std::optional<Error>(World&)>& change,
                           const std::function<void(World&, bool)>& look) {
    for (std::size_t nth = 1;; ++nth) {
      SCOPED_TRACE("call " + std::to_string(nth) + " fails");
      World world;
      prepare(world);
      world.files.arm(nth, GetParam().error, GetParam().extent);
      const std::optional<Error> error = change(world);
      world.files.disarm();
      const bool has_fired = world.files.has_fired();
      if (error) {
        EXPECT_EQ(error->code, GetParam().code()) << error->message();
        EXPECT_TRUE(has_fired);
      }
      look(world, !error);
      if (GetParam().is_passing()) {
        EXPECT_THAT(world.node.temps_on_disk(), IsEmpty());
      }
      const Status opened = world.node.open();
      EXPECT_TRUE(opened) << opened.error().message();
      look(world, !error);
      EXPECT_THAT(world.node.temps_on_disk(), IsEmpty());
      if (!has_fired || ::testing::Test::HasFatalFailure()) return nth;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Faults, FaultSweep,
                         ::testing::Values(Fault{ENOSPC, FaultyFileSystem::Extent::one_call},
                                           Fault{EIO, FaultyFileSystem::Extent::one_call},
                                           Fault{ENOSPC,
                                                 FaultyFileSystem::Extent::all_from_then_on},
                                           Fault{EIO, FaultyFileSystem::Extent::all_from_then_on}));

TEST_P(FaultSweep, FailedSaveKeepsTheOldHoldingAndASuccessfulOneStays) {
  const std::size_t calls = sweep(
      [](World& world) { ASSERT_EQ(world.node.save(expert_row(1, "old"), "old"), std::nullopt); },
      [](World& world) { return world.node.save(expert_row(1, "new"), "new"); },
      [](World& world, bool succeeded) {
        const std::string blob = succeeded ? "new" : "old";
        EXPECT_EQ(world.node.read(hash_of(blob)), blob);
        if (!succeeded && GetParam().is_passing()) {
          EXPECT_THAT(world.node.blobs_on_disk(), ElementsAre(to_hex(hash_of("old"))));
          EXPECT_EQ(world.node.store().usage().blob_bytes, 3U);
        }
      });
  EXPECT_GE(
      calls,
      7U);  // create, write, fsync, rename, the folder's open and fsync, removal of the old blob
}

TEST_P(FaultSweep, RestartAfterAFailedSaveListsOneHoldingAndKeepsOnlyItsBlob) {
  sweep([](World& world) { ASSERT_EQ(world.node.save(expert_row(1, "old"), "old"), std::nullopt); },
        [](World& world) { return world.node.save(expert_row(1, "new"), "new"); },
        [](World& world, bool succeeded) {
          ASSERT_TRUE(world.node.open());
          ASSERT_THAT(world.node.rows(), SizeIs(1));
          const BlobHash hash = hash_of(succeeded ? "new" : "old");
          EXPECT_EQ(world.node.rows()[0].hash, hash);
          EXPECT_THAT(world.node.blobs_on_disk(), ElementsAre(to_hex(hash)));
          EXPECT_EQ(world.node.store().usage().blob_bytes, 3U);
        });
}

TEST_P(FaultSweep, FailedPublishLeavesNothingAndCanBeRepeated) {
  const std::size_t calls =
      sweep([](World& world) { ASSERT_TRUE(world.node.open()); },
            [](World& world) -> std::optional<Error> {
              const Result<BlobHash> published = world.node.publish("blob");
              if (!published) return published.error();
              return std::nullopt;
            },
            [](World& world, bool succeeded) {
              if (succeeded) {
                EXPECT_EQ(world.node.read(hash_of("blob")), "blob");
              }
              if (!succeeded && GetParam().is_passing()) {
                EXPECT_THAT(world.node.blobs_on_disk(), IsEmpty());
                EXPECT_EQ(world.node.store().usage().blob_bytes, 0U);
              }
              ASSERT_TRUE(world.node.open());
              EXPECT_THAT(world.node.blobs_on_disk(), SizeIs(succeeded ? 1 : 0));
              if (!succeeded) {
                ASSERT_TRUE(world.node.publish("blob"));
                ASSERT_EQ(world.node.save_again(expert_row(9, "blob")), std::nullopt);
                EXPECT_EQ(world.node.read(hash_of("blob")), "blob");
                testing::write_text(world.node.path_of(hash_of("blob")), "damaged");
                ASSERT_EQ(world.node.quarantine(hash_of("blob")),
                          true);  // as before, for the second look
              }
            });
  EXPECT_GE(calls, 6U);
}

TEST_P(FaultSweep, FailedHealingOfADamagedBlobCanBeRepeated) {
  sweep(
      [](World& world) {
        ASSERT_EQ(world.node.save(expert_row(1, "good bytes"), "good bytes"), std::nullopt);
        testing::write_text(world.node.path_of(hash_of("good bytes")), "bad");
      },
      [](World& world) { return world.node.save(expert_row(1, "good bytes"), "good bytes"); },
      [](World& world, bool succeeded) {
        if (succeeded) {
          EXPECT_EQ(world.node.read(hash_of("good bytes")), "good bytes");
        } else {
          EXPECT_THAT(*world.node.read(hash_of("good bytes")), AnyOf("bad", "good bytes"));
        }
        EXPECT_EQ(world.node.store().usage().blob_bytes, 10U);
      });
}

TEST_P(FaultSweep, FailedUploadLeavesNothing) {
  sweep([](World& world) { ASSERT_TRUE(world.node.open()); },
        [](World& world) -> std::optional<Error> {
          const auto upload = *world.node.store().begin_upload(std::nullopt);
          for (const char* piece : {"one ", "two"}) {
            const auto written = wait_for<Status>([&](auto done) {
              world.node.store().append(upload, BufferRef::copy_of(piece), std::move(done));
            });
            if (!written) return written.error();
          }
          const auto published = wait_for<Result<work::Published>>(
              [&](auto done) { world.node.store().finish(upload, std::move(done)); });
          world.node.close();  // whatever the store's threads still held of the upload is let go
          if (!published) return published.error();
          return std::nullopt;
        },
        [](World& world, bool succeeded) {
          ASSERT_TRUE(world.node.open());
          EXPECT_THAT(world.node.blobs_on_disk(), SizeIs(succeeded ? 1 : 0));
          EXPECT_EQ(world.node.store().usage().blob_bytes, succeeded ? 7U : 0U);
        });
}

TEST_P(FaultSweep, UnloadThatCannotRemoveTheFileIsStillAnUnload) {
  sweep([](World& world) { ASSERT_EQ(world.node.save(expert_row(1, "old"), "old"), std::nullopt); },
        [](World& world) -> std::optional<Error> {
          EXPECT_TRUE(world.node.remove(expert_row(1, "old")));
          return std::nullopt;
        },
        [](World& world, bool) {
          ASSERT_TRUE(world.node.open());
          EXPECT_THAT(world.node.rows(), IsEmpty());
          EXPECT_THAT(world.node.blobs_on_disk(), IsEmpty());
        });
}

TEST_P(FaultSweep, FailedFirstStartCanBeRepeated) {
  std::size_t nth = 1;
  for (;; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth) + " fails");
    World world;
    world.files.arm(nth, GetParam().error, GetParam().extent);
    const Status first = world.node.open();
    world.files.disarm();
    if (!first) {
      EXPECT_THAT(first.error().code, AnyOf(ErrorCode::no_space, ErrorCode::io));
    }
    ASSERT_EQ(world.node.save(expert_row(1, "blob"), "blob"), std::nullopt);
    if (!world.files.has_fired()) break;
  }
  EXPECT_GE(nth, 10U);
}

// A rename that reached the disk before the bytes, or that the folder did not keep, would lose an
// acknowledged blob.
TEST(Faults, BytesAreSyncedBeforeTheRenameAndTheFolderAfterIt) {
  TemporaryDirectory temporary;
  FaultyFileSystem files;
  NodeStore node(temporary / "data", files);
  ASSERT_EQ(node.save(expert_row(1, "old"), "old"), std::nullopt);
  static_cast<void>(files.take_names());
  ASSERT_EQ(node.save(expert_row(1, "new"), "new"), std::nullopt);
  EXPECT_THAT(files.take_names(),
              ElementsAre("mkdir", "open", "fsync",            // the folder of the first byte
                          "open", "write", "fsync", "rename",  // the blob
                          "open", "fsync",                     // the folder's new entry
                          "unlink"));                          // the old blob, after the index
}

TEST(Faults, ShortWritesAreContinued) {
  TemporaryDirectory temporary;
  FaultyFileSystem files;
  files.limit_writes(3);
  NodeStore node(temporary / "data", files);
  const std::string blob(1000, 'x');
  ASSERT_EQ(node.save(expert_row(1, blob), blob), std::nullopt);
  EXPECT_EQ(node.read(hash_of(blob)), blob);
}

TEST(Faults, FullDiskIsToldWithTheNumbersOfBlobAndDisk) {
  TemporaryDirectory temporary;
  FaultyFileSystem files;
  NodeStore node(temporary / "data", files);
  ASSERT_TRUE(node.open());
  files.arm(5, ENOSPC,
            FaultyFileSystem::Extent::one_call);  // the folder (three calls), create, write
  const std::optional<Error> error = node.save(expert_row(1, "blob"), "blob");
  ASSERT_NE(error, std::nullopt);
  EXPECT_THAT(error->message(),
              ::testing::MatchesRegex("blob of 4 bytes: cannot write: No space left on device "
                                      "\\([0-9]+ of [0-9]+ bytes are free\\)"));
}

// Too few descriptors say nothing about the blob: neither its reader nor quarantine may take it for
// damaged.
TEST(Faults, ShortageOfTheMomentIsBusyAndCostsNoBlob) {
  TemporaryDirectory temporary;
  FaultyFileSystem files;
  NodeStore node(temporary / "data", files);
  ASSERT_EQ(node.save(expert_row(1, "blob"), "blob"), std::nullopt);
  for (const std::size_t nth : {1U, 2U}) {  // open, then pread
    files.arm(nth, nth == 1 ? EMFILE : ENOMEM, FaultyFileSystem::Extent::all_from_then_on);
    EXPECT_EQ(node.read(hash_of("blob")).error().code, ErrorCode::busy);
    files.arm(nth, nth == 1 ? EMFILE : ENOMEM, FaultyFileSystem::Extent::all_from_then_on);
    EXPECT_EQ(node.quarantine(hash_of("blob")).error().code, ErrorCode::busy);
  }
  files.disarm();
  EXPECT_EQ(node.read(hash_of("blob")), "blob");
}

TEST(Faults, UnreadableBlobIsAnIoErrorAndStays) {
  TemporaryDirectory temporary;
  FaultyFileSystem files;
  NodeStore node(temporary / "data", files);
  ASSERT_EQ(node.save(expert_row(1, "blob"), "blob"), std::nullopt);
  files.arm(2, EIO, FaultyFileSystem::Extent::one_call);  // open, then pread
  const Result<std::string> refused = node.read(hash_of("blob"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "blob " + to_hex(hash_of("blob")) + ": cannot read: Input/output error");
  EXPECT_EQ(node.read(hash_of("blob")), "blob");
}

}  // namespace
}  // namespace tenzro::store
