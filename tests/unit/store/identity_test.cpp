#include "tenzro/store/identity.hpp"

#include <cerrno>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tenzro/base/bytes.hpp"

#include "support/faulty_file_system.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using testing::FaultyFileSystem;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;

struct Home {
  TemporaryDirectory temporary;
  FileSystem files;
  std::string key = temporary / "identity.key";

  Result<Identity> load() {
    Result<DataDir> dir = DataDir::open(temporary.path(), files);
    if (!dir) return fail(dir.error());
    return load_or_create_identity(*dir);
  }
};

TEST(Identity, IsMadeOnceForItsOwnerAlone) {
  Home home;
  const Result<Identity> made = home.load();
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_TRUE(made->is_new);

  struct stat info {};

  ASSERT_EQ(::stat(home.key.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  const Result<Identity> loaded = home.load();
  ASSERT_TRUE(loaded);
  EXPECT_FALSE(loaded->is_new);
  EXPECT_EQ(loaded->seed, made->seed);
  EXPECT_EQ(loaded->warning, std::nullopt);
}

TEST(Identity, TwoNodesGetTwoKeys) {
  Home one;
  Home other;
  EXPECT_NE(one.load()->seed, other.load()->seed);
}

TEST(Identity, FileIsTheSeedAndItsPublicKeyInHex) {
  Home home;
  const Identity made = *home.load();
  EXPECT_EQ(
      testing::read_text(home.key),
      to_hex(made.seed) + "\n" + to_hex(crypto::KeyPair::from_seed(made.seed).public_key()) + "\n");
}

TEST(Identity, DamagedFileIsRefusedByNameAndLeftAsItIs) {
  Home home;
  ASSERT_TRUE(home.load());
  const std::string good = testing::read_text(home.key);
  std::string flipped_seed = good;
  flipped_seed[10] = flipped_seed[10] == '0' ? '1' : '0';
  std::string flipped_public_key = good;
  flipped_public_key[100] = flipped_public_key[100] == '0' ? '1' : '0';
  std::string upper = good;
  upper[0] = 'A';
  for (const std::string& bad :
       {std::string(), good.substr(0, 65), good.substr(0, 129), good + "\n", flipped_seed,
        flipped_public_key, upper, std::string(130, '\0'), std::string(32, 'k')}) {
    testing::write_text(home.key, bad);
    const Result<Identity> identity = home.load();
    ASSERT_FALSE(identity) << bad;
    EXPECT_EQ(identity.error().code, ErrorCode::io);
    EXPECT_THAT(identity.error().message(), HasSubstr(home.key + ": is damaged"));
    EXPECT_EQ(testing::read_text(home.key), bad);
  }
}

TEST(Identity, ErrorNeverShowsTheSecret) {
  Home home;
  ASSERT_TRUE(home.load());
  const std::string good = testing::read_text(home.key);
  testing::write_text(home.key, good + "x");
  EXPECT_THAT(home.load().error().message(), ::testing::Not(HasSubstr(good.substr(0, 16))));
}

TEST(Identity, WhatIsNoRegularFileIsRefusedAndNotWaitedFor) {
  Home home;
  ASSERT_EQ(::mkfifo(home.key.c_str(), 0600), 0);
  EXPECT_THAT(home.load().error().message(), HasSubstr("not a regular file"));
  std::filesystem::remove(home.key);
  ASSERT_EQ(::mkdir(home.key.c_str(), 0700), 0);
  EXPECT_FALSE(home.load());
}

TEST(Identity, LinkIsFollowedAndADanglingOneIsNotReplaced) {
  Home home;
  const Identity made = *home.load();
  TemporaryDirectory elsewhere;
  std::filesystem::rename(home.key, elsewhere / "mounted.key");
  std::filesystem::create_symlink(elsewhere / "mounted.key", home.key);
  EXPECT_EQ(home.load()->seed, made.seed);
  std::filesystem::remove(elsewhere / "mounted.key");
  EXPECT_THAT(home.load().error().message(), HasSubstr("link to a file that is not there"));
  EXPECT_TRUE(std::filesystem::is_symlink(home.key));
}

TEST(Identity, FileThatOthersCanReadIsAWarning) {
  Home home;
  const Identity made = *home.load();
  ASSERT_EQ(::chmod(home.key.c_str(), 0644), 0);
  const Result<Identity> loaded = home.load();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->seed, made.seed);
  EXPECT_THAT(loaded->warning.value_or(""), HasSubstr("chmod 600"));
}

TEST(Identity, CanBeShownWhileTheNodeRuns) {
  Home home;
  EXPECT_EQ(read_identity(home.temporary.path()).error().code, ErrorCode::not_found);
  Result<DataDir> running = DataDir::open(home.temporary.path(), home.files);
  const Identity made = *load_or_create_identity(*running);
  EXPECT_EQ(read_identity(home.temporary.path())->seed, made.seed);
}

TEST(Identity, FailureWhileItIsMadeLeavesNothingOrTheWholeKey) {
  for (const int error : {ENOSPC, EIO}) {
    for (const auto extent :
         {FaultyFileSystem::Extent::one_call, FaultyFileSystem::Extent::all_from_then_on}) {
      std::size_t nth = 1;
      for (;; ++nth) {
        TemporaryDirectory temporary;
        FaultyFileSystem files;
        std::optional<crypto::Seed> made;
        {
          Result<DataDir> dir = DataDir::open(temporary.path(), files);
          ASSERT_TRUE(dir);
          files.arm(nth, error, extent);
          const Result<Identity> identity = load_or_create_identity(*dir);
          files.disarm();
          if (identity) made = identity->seed;
        }
        Result<DataDir> dir = DataDir::open(temporary.path(), files);
        ASSERT_TRUE(dir) << dir.error().message();
        const Result<Identity> identity = load_or_create_identity(*dir);
        ASSERT_TRUE(identity) << identity.error().message();
        if (made) {
          EXPECT_EQ(identity->seed, *made);
        }
        EXPECT_EQ(testing::names_in(temporary.path()),
                  (std::vector<std::string>{"identity.key", "lock"}));
        if (!files.has_fired()) break;
        EXPECT_FALSE(made);
      }
      EXPECT_GE(nth, 6U);
    }
  }
}

}  // namespace
}  // namespace tenzro::store
