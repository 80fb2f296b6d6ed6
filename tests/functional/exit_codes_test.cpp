// A daemon that cannot start says why in a sentence and exits with the code for it.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/daemon_process.hpp"

namespace tenzro::testing {
namespace {

void expect_refusal(DaemonProcess& daemon, int code, const std::string& words) {
  EXPECT_FALSE(daemon.is_ready());
  EXPECT_EQ(daemon.wait(), code) << daemon.log();
  EXPECT_NE(daemon.log().find(words), std::string::npos) << daemon.log();
}

TEST(ExitCodes, UnknownFlagAndBadConfigurationAreUsageErrors) {
  const TempFolder folder;
  DaemonProcess flag(folder.path() + "/a", {.arguments = {"--nonsense"}});
  expect_refusal(flag, 2, "--nonsense");
  const std::string config = folder.path() + "/node.toml";
  std::ofstream(config) << "[node]\nnaem = \"x\"\n";
  DaemonProcess key(folder.path() + "/a", {.arguments = {"--config", config}});
  expect_refusal(key, 2, config + ":2: node.naem: unknown key");
  DaemonProcess missing(folder.path() + "/a",
                        {.arguments = {"--config", folder.path() + "/none.toml"}});
  expect_refusal(missing, 2, "none.toml: cannot be read");
}

TEST(ExitCodes, EndpointThatNoNodeCouldCallIsAUsageError) {
  const TempFolder folder;
  const std::string config = folder.path() + "/node.toml";
  for (const char* endpoint : {"http://node.example.org", "http://user@a:1", "https://a:1/path"}) {
    std::ofstream(config) << "[http]\nadvertise = \"" << endpoint << "\"\n";
    DaemonProcess daemon(folder.path() + "/a", {.arguments = {"--config", config}});
    expect_refusal(daemon, 2, "http.advertise: ");
  }
}

TEST(ExitCodes, ListeningOffLoopbackNeedsTokensOrTheWord) {
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a", {.arguments = {"--rpc-listen", "0.0.0.0:0"}});
  expect_refusal(daemon, 2, "can be reached from other machines");
}

TEST(ExitCodes, SecondProcessOnADataDirectoryIsRefusedAndTheFirstServesOn) {
  const TempFolder folder;
  DaemonProcess first(folder.path() + "/a");
  ASSERT_TRUE(first.is_ready()) << first.log();
  DaemonProcess second(folder.path() + "/a");
  expect_refusal(second, 3, folder.path() + "/a");
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait(), 0) << first.log();
}

TEST(ExitCodes, UnusableDataDirectoryIsNamed) {
  const TempFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  DaemonProcess daemon(folder.path() + "/file/below");
  expect_refusal(daemon, 4, folder.path() + "/file");
}

TEST(ExitCodes, DamagedIdentityIsRefusedAndNeverReplaced) {
  const TempFolder folder;
  {
    DaemonProcess daemon(folder.path() + "/a");
    ASSERT_TRUE(daemon.is_ready()) << daemon.log();
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0);
  }
  const std::string key = folder.path() + "/a/identity.key";
  std::filesystem::resize_file(key, 20);
  DaemonProcess daemon(folder.path() + "/a");
  expect_refusal(daemon, 4, "identity.key");
  EXPECT_EQ(std::filesystem::file_size(key), 20U);
}

TEST(ExitCodes, BusyPortIsNamed) {
  const TempFolder folder;
  DaemonProcess first(folder.path() + "/a");
  ASSERT_TRUE(first.is_ready()) << first.log();
  DaemonProcess second(folder.path() + "/b", {.arguments = {"--rpc-listen", first.rpc()}});
  expect_refusal(second, 5, first.rpc());
}

TEST(ExitCodes, ForcedInstructionSetOrBackendThatIsNotThereIsRefused) {
  const TempFolder folder;
  DaemonProcess isa(folder.path() + "/a", {.environment = {{"TENZRO_ISA", "sse9"}}});
  expect_refusal(isa, 6, "TENZRO_ISA");
  DaemonProcess backend(folder.path() + "/a", {.environment = {{"TENZRO_BACKEND", "cuda"}}});
  expect_refusal(backend, 6, "cuda");
}

TEST(ExitCodes, CheckConfigAndPrintIdNeedNoRunningNode) {
  const TempFolder folder;
  DaemonProcess check(folder.path() + "/a", {.arguments = {"--check-config"}});
  EXPECT_EQ(check.wait(), 0);
  EXPECT_NE(check.log().find("the configuration is valid"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/a"));
  DaemonProcess once(folder.path() + "/a", {.arguments = {"--print-id"}});
  EXPECT_EQ(once.wait(), 0) << once.log();
  DaemonProcess again(folder.path() + "/a", {.arguments = {"--print-id"}});
  EXPECT_EQ(again.wait(), 0);
  EXPECT_EQ(once.log(), again.log());
  EXPECT_NE(once.log().find("endpoint_id "), std::string::npos);
}

}  // namespace
}  // namespace tenzro::testing
