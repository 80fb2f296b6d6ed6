// Source files: what a checkpoint names is read, and nothing else.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "node_store.hpp"
#include "support/temporary_directory.hpp"

namespace tenzro::store {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryDirectory;

struct Fixture {
  TemporaryDirectory temporary;
  NodeStore node{temporary / "data", Options{.blob_dir = {}, .blob_bytes_max = 100}};
  std::string root = temporary / "model";

  Fixture() {
    std::filesystem::create_directory(root);
    testing::write_text(root + "/config.json", "0123456789");
  }

  Result<std::string> read(const std::string& file, std::uint64_t offset, std::uint64_t length,
                           bool allow_short = false) {
    const work::StoreResult result =
        node.call(work::ReadSource{root, file, offset, length, allow_short});
    if (!result) return fail(result.error());
    return std::string(std::get<work::ReadBytes>(*result).bytes.text());
  }
};

TEST(Sources, RangesAreRead) {
  Fixture fixture;
  EXPECT_EQ(fixture.read("config.json", 0, 10), "0123456789");
  EXPECT_EQ(fixture.read("config.json", 4, 3), "456");
  EXPECT_EQ(fixture.read("./config.json", 10, 0), "");
}

TEST(Sources, ShortFileIsAnErrorUnlessAllowed) {
  Fixture fixture;
  const Result<std::string> refused = fixture.read("config.json", 5, 6);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::io);
  EXPECT_EQ(refused.error().message(),
            fixture.root + "/config.json: is too short: 6 bytes at offset 5 are wanted, it has 10");
  EXPECT_EQ(fixture.read("config.json", 5, 6, true), "56789");
  EXPECT_EQ(fixture.read("config.json", 11, 6, true), "");
  EXPECT_FALSE(fixture.read("config.json", UINT64_MAX, UINT64_MAX));
  EXPECT_EQ(fixture.read("config.json", UINT64_MAX, UINT64_MAX, true), "");
}

TEST(Sources, OneReadIsBoundedHoweverLargeTheFileClaimsToBe) {
  Fixture fixture;
  testing::write_text(fixture.root + "/sparse", "");
  std::filesystem::resize_file(fixture.root + "/sparse", 1ULL << 40U);
  EXPECT_EQ(fixture.read("sparse", 0, 101).error().code, ErrorCode::invalid_params);
  EXPECT_EQ(fixture.read("sparse", 0, UINT64_MAX, true).error().code, ErrorCode::invalid_params);
  EXPECT_EQ(fixture.read("sparse", 1ULL << 39U, 100), std::string(100, '\0'));
}

TEST(Sources, NameThatLeavesTheRootIsRefused) {
  Fixture fixture;
  testing::write_text(fixture.temporary / "secret", "secret");
  for (const std::string file :
       {"../secret", "..", "a/../../secret", "/etc/hostname", "a/..", "sub/../config.json"}) {
    const Result<std::string> refused = fixture.read(file, 0, 1);
    ASSERT_FALSE(refused) << file;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_params);
    EXPECT_THAT(refused.error().message(), HasSubstr("'" + file + "'"));
  }
  EXPECT_FALSE(fixture.read("", 0, 1));
  EXPECT_FALSE(fixture.read(std::string("config.json\0x", 13), 0, 1));
  EXPECT_FALSE(fixture.read(std::string(5000, 'x'), 0, 1));
  testing::write_text(fixture.root + "/..odd..", "fine");
  EXPECT_EQ(fixture.read("..odd..", 0, 4), "fine");
}

TEST(Sources, SymbolicLinksAreFollowedAsDownloadCachesNeed) {
  Fixture fixture;
  std::filesystem::create_directory(fixture.temporary / "cache");
  testing::write_text(fixture.temporary / "cache/abc", "cached");
  std::filesystem::create_symlink("../cache/abc", fixture.root + "/model.safetensors");
  EXPECT_EQ(fixture.read("model.safetensors", 0, 6), "cached");
  std::filesystem::remove(fixture.temporary / "cache/abc");
  EXPECT_EQ(fixture.read("model.safetensors", 0, 6).error().code, ErrorCode::not_found);
}

TEST(Sources, WhatIsNoRegularFileIsRefusedAndNotWaitedFor) {
  Fixture fixture;
  ASSERT_EQ(::mkfifo((fixture.root + "/pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", fixture.root + "/zero");
  std::filesystem::create_directory(fixture.root + "/folder");
  for (const std::string file : {"pipe", "zero", "folder"}) {
    const Result<std::string> refused = fixture.read(file, 0, 1, true);
    ASSERT_FALSE(refused) << file;
    EXPECT_EQ(refused.error().message(), fixture.root + "/" + file + ": is not a regular file");
  }
}

TEST(Sources, MissingFileIsNotFoundAndSaysWhich) {
  Fixture fixture;
  const Result<std::string> missing = fixture.read("model.safetensors", 0, 1);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(missing.error().message(),
            fixture.root + "/model.safetensors: cannot open: No such file or directory");
}

TEST(Sources, FileThatWasWrittenAnewIsNotTheVersionThatWasReadFirst) {
  Fixture fixture;
  const auto read = [&](const std::string& version) {
    return fixture.node.call(work::ReadSource{fixture.root, "config.json", 2, 3, false, version});
  };
  const work::StoreResult first = read("");
  ASSERT_TRUE(first);
  const auto& bytes = std::get<work::ReadBytes>(*first);
  EXPECT_EQ(bytes.file_bytes, 10U);
  EXPECT_TRUE(read(bytes.version));
  std::filesystem::remove(fixture.root + "/config.json");
  testing::write_text(fixture.root + "/other", "9876543210");
  std::filesystem::rename(fixture.root + "/other", fixture.root + "/config.json");
  const work::StoreResult changed = read(bytes.version);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().message(),
            fixture.root + "/config.json: was changed since it was first read");
}

}  // namespace
}  // namespace tenzro::store
