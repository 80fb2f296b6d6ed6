#include "tenzro/store/data_dir.hpp"

#include <cerrno>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tenzro/store/addresses.hpp"

#include "support/faulty_file_system.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using testing::FaultyFileSystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TemporaryDirectory;

unsigned mode_of(const std::string& path) {
  struct stat info {};

  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777U : 0;
}

TEST(DataDir, IsMadeForItsOwnerAloneWithWhatIsMissingAbove) {
  TemporaryDirectory temporary;
  FileSystem files;
  const Result<DataDir> dir = DataDir::open(temporary / "a/b/data", files);
  ASSERT_TRUE(dir) << dir.error().message();
  EXPECT_EQ(mode_of(temporary / "a/b/data"), 0700U);
  EXPECT_THAT(dir->warnings(), IsEmpty());
}

TEST(DataDir, SecondOpenIsBusyAndNamesTheDirectoryAndTheProcess) {
  TemporaryDirectory temporary;
  FileSystem files;
  const std::string path = temporary / "data";
  {
    const Result<DataDir> first = DataDir::open(path, files);
    ASSERT_TRUE(first);
    const Result<DataDir> second = DataDir::open(path, files);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::busy);
    EXPECT_THAT(second.error().message(), HasSubstr(path));
    EXPECT_THAT(second.error().message(), HasSubstr("pid " + std::to_string(::getpid())));
  }
  EXPECT_TRUE(DataDir::open(path, files));
}

TEST(DataDir, PathBelowAFileIsRefusedInASentence) {
  TemporaryDirectory temporary;
  FileSystem files;
  testing::write_text(temporary / "file", "");
  for (const std::string& path : {temporary / "file/data", temporary / "file"}) {
    const Result<DataDir> dir = DataDir::open(path, files);
    ASSERT_FALSE(dir);
    EXPECT_EQ(dir.error().code, ErrorCode::io);
    EXPECT_THAT(dir.error().message(), HasSubstr("data directory '" + path + "' cannot be"));
    EXPECT_THAT(dir.error().message(), HasSubstr("Not a directory"));
  }
}

/// Gives up root's rights, which ignore modes, for a while.
class OrdinaryUser {
 public:
  OrdinaryUser()
      : was_root_(::geteuid() == 0), is_ordinary_(!was_root_ || ::seteuid(kNobody) == 0) {}

  ~OrdinaryUser() {
    if (was_root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

  static constexpr uid_t kNobody = 65534;

  [[nodiscard]] bool is_ordinary() const { return is_ordinary_; }

 private:
  bool was_root_;
  bool is_ordinary_;
};

TEST(DataDir, ReadOnlyDirectoryIsRefusedInASentence) {
  TemporaryDirectory temporary;
  const std::string path = temporary / "data";
  ASSERT_EQ(::mkdir(path.c_str(), 0555), 0);
  ASSERT_EQ(::chmod(temporary.path().c_str(), 0755), 0);
  const OrdinaryUser user;
  if (!user.is_ordinary()) GTEST_SKIP() << "may not give up root";
  FileSystem files;
  const Result<DataDir> dir = DataDir::open(path, files);
  ASSERT_FALSE(dir);
  EXPECT_EQ(dir.error().message(),
            "data directory '" + path + "' cannot be written: Permission denied");
}

TEST(DataDir, DirectoryOpenToOthersIsAWarning) {
  TemporaryDirectory temporary;
  ASSERT_EQ(::mkdir((temporary / "data").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((temporary / "data").c_str(), 0755), 0);
  FileSystem files;
  const Result<DataDir> dir = DataDir::open(temporary / "data", files);
  ASSERT_TRUE(dir);
  ASSERT_THAT(dir->warnings(), SizeIs(1));
  EXPECT_THAT(dir->warnings()[0], HasSubstr("chmod 700"));
  EXPECT_EQ(mode_of(temporary / "data"), 0755U);
}

TEST(DataDir, LeftoversOfAKilledProcessAreRemovedOnOpenAndNothingElse) {
  TemporaryDirectory temporary;
  testing::write_text(temporary / ".identity.key.tmp", "half");
  testing::write_text(temporary / "notes.tmp", "an operator's");
  FileSystem files;
  ASSERT_TRUE(DataDir::open(temporary.path(), files));
  EXPECT_EQ(testing::names_in(temporary.path()), (std::vector<std::string>{"lock", "notes.tmp"}));
}

TEST(DataDir, WriteFileReplacesWithTheWantedMode) {
  TemporaryDirectory temporary;
  FileSystem files;
  Result<DataDir> dir = DataDir::open(temporary.path(), files);
  ASSERT_TRUE(dir);
  ASSERT_TRUE(dir->write_file("x", "one", 0600));
  EXPECT_EQ(mode_of(temporary / "x"), 0600U);
  ASSERT_TRUE(dir->write_file("x", "two", 0600));
  EXPECT_EQ(testing::read_text(temporary / "x"), "two");
  ASSERT_TRUE(dir->remove_file("x"));
  ASSERT_TRUE(dir->remove_file("x"));
  EXPECT_EQ(testing::names_in(temporary.path()), std::vector<std::string>{"lock"});
}

TEST(DataDir, FailedWriteKeepsTheOldFileAndLeavesNoOther) {
  for (const int error : {ENOSPC, EIO}) {
    TemporaryDirectory temporary;
    FaultyFileSystem files;
    Result<DataDir> dir = DataDir::open(temporary.path(), files);
    ASSERT_TRUE(dir);
    ASSERT_TRUE(dir->write_file("x", "old", 0600));
    std::size_t nth = 1;
    for (;; ++nth) {
      files.arm(nth, error, FaultyFileSystem::Extent::one_call);
      const Status written = dir->write_file("x", "new", 0600);
      files.disarm();
      if (!files.has_fired()) break;
      ASSERT_FALSE(written);
      EXPECT_EQ(written.error().code, error == ENOSPC ? ErrorCode::no_space : ErrorCode::io);
      const std::string content = testing::read_text(temporary / "x");
      EXPECT_TRUE(content == "old" || content == "new") << content;
      EXPECT_EQ(testing::names_in(temporary.path()), (std::vector<std::string>{"lock", "x"}));
    }
    EXPECT_GE(nth, 6U);  // create, write, fsync, rename, and open and fsync of the folder
  }
}

TEST(DataDir, FullDiskIsToldWithItsNumbers) {
  TemporaryDirectory temporary;
  FaultyFileSystem files;
  Result<DataDir> dir = DataDir::open(temporary.path(), files);
  ASSERT_TRUE(dir);
  files.arm(2, ENOSPC, FaultyFileSystem::Extent::one_call);
  const Status written = dir->write_file("x", "text", 0600);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::no_space);
  EXPECT_THAT(written.error().detail,
              ::testing::ContainsRegex(
                  "cannot write: No space left on device \\([0-9]+ of [0-9]+ bytes are free\\)"));
}

TEST(Addresses, AppearWholeAndGo) {
  TemporaryDirectory temporary;
  FileSystem files;
  Result<DataDir> dir = DataDir::open(temporary.path(), files);
  ASSERT_TRUE(dir);
  Addresses addresses{
      .rpc = "127.0.0.1:8545", .quic = "0.0.0.0:9001", .endpoint_id = {}, .provider = {}};
  addresses.endpoint_id[0] = 0xAB;
  addresses.provider[31] = 0x01;
  ASSERT_TRUE(write_addresses(*dir, addresses));
  EXPECT_EQ(testing::read_text(temporary / "addresses.json"),
            "{\"rpc\":\"127.0.0.1:8545\",\"quic\":\"0.0.0.0:9001\",\"endpoint_id\":\"ab" +
                std::string(62, '0') + "\",\"provider\":\"" + std::string(62, '0') + "01\"}\n");
  ASSERT_TRUE(remove_addresses(*dir));
  ASSERT_TRUE(remove_addresses(*dir));
  EXPECT_FALSE(std::filesystem::exists(temporary / "addresses.json"));
}

}  // namespace
}  // namespace tenzro::store
