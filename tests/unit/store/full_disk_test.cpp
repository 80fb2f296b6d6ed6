// Goal: on a disk without a free byte an expert can still be unloaded, and that frees the disk.
// Method: SQLite's own writes fail with ENOSPC for as long as the reserve stands, as they do where
// it holds the last free space; the store's writes fail likewise.
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include "node_store.hpp"
#include "support/faulty_file_system.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using ::testing::IsEmpty;
using testing::TemporaryDirectory;

/// One at a time: SQLite's system calls are the whole process's.
class FullDisk {
 public:
  explicit FullDisk(std::string reserve) {
    reserve_ = std::move(reserve);
    is_full_ = false;
    replace(reinterpret_cast<sqlite3_syscall_ptr>(&write_call),
            reinterpret_cast<sqlite3_syscall_ptr>(&pwrite_call));
  }

  ~FullDisk() { replace(nullptr, nullptr); }

  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  static void fill() { is_full_ = true; }

 private:
  /// Null brings the system's own back.
  static void replace(sqlite3_syscall_ptr write_to, sqlite3_syscall_ptr pwrite_to) {
    sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
    vfs->xSetSystemCall(vfs, "write", write_to);
    for (const char* name : {"pwrite", "pwrite64"}) vfs->xSetSystemCall(vfs, name, pwrite_to);
  }

  static bool has_no_space() {
    if (!is_full_ || !std::filesystem::exists(reserve_)) return false;
    errno = ENOSPC;
    return true;
  }

  static ssize_t write_call(int fd, const void* bytes, std::size_t size) {
    return has_no_space() ? -1 : ::write(fd, bytes, size);
  }

  static ssize_t pwrite_call(int fd, const void* bytes, std::size_t size, off_t offset) {
    return has_no_space() ? -1 : ::pwrite(fd, bytes, size, offset);
  }

  static inline std::string reserve_;
  static inline std::atomic<bool> is_full_{false};
};

struct World {
  TemporaryDirectory temporary;
  std::string reserve = temporary / "data/index.db.reserve";
  FaultyFileSystem files;
  NodeStore node{temporary / "data", files};
  FullDisk disk{reserve};

  void fill_disk() {
    FullDisk::fill();
    files.arm(1, ENOSPC, FaultyFileSystem::Extent::all_from_then_on);
  }

  /// The error of the store's answer, or nothing.
  std::optional<Error> unload(ExpertIndex expert) {
    const work::StoreResult result = node.call(work::RemoveHolding{{"m", 3}, expert});
    if (result) return std::nullopt;
    return result.error();
  }
};

TEST(FullDisk, ReserveIsPutByAtTheFirstStart) {
  World world;
  ASSERT_TRUE(world.node.open());
  EXPECT_EQ(std::filesystem::file_size(world.reserve), 1U << 20U);
}

TEST(FullDisk, WithoutAReserveNothingCanBeUnloaded) {
  World world;
  ASSERT_EQ(world.node.save(expert_row(1, "old"), "old"), std::nullopt);
  world.fill_disk();  // unlink fails too: the reserve cannot be given up
  const std::optional<Error> error = world.unload(1);
  ASSERT_NE(error, std::nullopt);
  EXPECT_EQ(error->code, ErrorCode::no_space);
  world.files.disarm();
  EXPECT_EQ(world.node.read(hash_of("old")), "old");
}

TEST(FullDisk, UnloadGivesTheReserveUpAndPutsItByAgain) {
  World world;
  ASSERT_EQ(world.node.save(expert_row(1, "one"), "one"), std::nullopt);
  ASSERT_EQ(world.node.save(expert_row(2, "two"), "two"), std::nullopt);
  FullDisk::fill();
  const std::optional<Error> refused = world.node.save(expert_row(3, "three"), "three");
  ASSERT_NE(refused, std::nullopt);
  EXPECT_EQ(refused->code, ErrorCode::no_space);
  ASSERT_TRUE(std::filesystem::exists(world.reserve)) << "a load must not take it";
  EXPECT_EQ(world.unload(1), std::nullopt);
  EXPECT_THAT(world.node.blobs_on_disk(), ElementsAre(to_hex(hash_of("two"))));
  EXPECT_EQ(std::filesystem::file_size(world.reserve), 1U << 20U);
  EXPECT_EQ(world.unload(2), std::nullopt);
  EXPECT_THAT(world.node.blobs_on_disk(), IsEmpty());
}

TEST(FullDisk, NodeStartsAndUnloads) {
  World world;
  ASSERT_EQ(world.node.save(expert_row(1, "one"), "one"), std::nullopt);
  world.node.close();
  FullDisk::fill();
  const Status opened = world.node.open();
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(world.unload(1), std::nullopt);
  EXPECT_THAT(world.node.blobs_on_disk(), IsEmpty());
}

}  // namespace
}  // namespace tenzro::store
