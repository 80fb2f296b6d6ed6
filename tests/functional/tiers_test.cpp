// A real process that holds four times what its memory may take: budget, kill -9, and cgroups.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/daemon_process.hpp"
#include "support/instrumented.hpp"
#include "support/one_layer_calls.hpp"
#include "support/random_expert.hpp"
#include "support/rpc_client.hpp"

namespace tenzro::testing {
namespace {

constexpr std::uint32_t kWidth = 1024;
constexpr std::uint32_t kFfn = 640;  // 2 MiB in Q8_0
constexpr int kExperts = 128;
constexpr int kClients = 16;
constexpr std::uint64_t kMiB = 1ULL << 20U;
constexpr std::uint64_t kBudget = 64 * kMiB;
/// Beside the budget: the program itself, and what is on its way through it.
constexpr std::uint64_t kBeside = 64 * kMiB;

std::string config_in(const std::string& folder) {
  const std::string path = folder + "/tenzrod.toml";
  std::ofstream(path) << "[holder]\nmemory_budget = \"64MiB\"\n";
  return path;
}

/// Experts that differ in their last weights only.
class Blobs {
 public:
  Blobs() {
    const BufferRef blob = random_expert(1, kWidth, kFfn, tensor::WeightType::q8_0);
    bytes_ = std::string(blob.text());
  }

  [[nodiscard]] std::string of(int expert) const {
    std::string bytes = bytes_;
    bytes[bytes.size() - 1] = static_cast<char>(expert % 100);
    bytes[bytes.size() - 2] = static_cast<char>(expert / 100);
    return bytes;
  }

 private:
  std::string bytes_;
};

/// A line of /proc/PID/status, in bytes.
std::uint64_t memory_of(pid_t pid, const std::string& name) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  std::uint64_t kib = 0;
  while (in >> word) {
    if (word == name + ":" && in >> kib) return kib * 1024;
  }
  return 0;
}

/// From now on VmHWM is the most that was resident since now.
void forget_peak(pid_t pid) {
  std::ofstream("/proc/" + std::to_string(pid) + "/clear_refs") << "5";
}

std::vector<std::string> publish(const RpcClient& client, const Blobs& blobs) {
  std::vector<std::string> uris;
  for (int e = 0; e < kExperts; ++e) {
    const HttpAnswer put = client.send("PUT", "/blob", {}, blobs.of(e));
    EXPECT_EQ(put.status, 201) << put.body;
    uris.push_back(nlohmann::json::parse(put.body).value("tenzro_uri", ""));
  }
  return uris;
}

/// Loads all by URI, several clients at once, until `stop`; those that were acknowledged.
std::set<int> load_all(const std::string& rpc, const std::vector<std::string>& uris,
                       std::atomic<int>& acknowledged) {
  std::mutex mutex;
  std::set<int> loaded;
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      const RpcClient client(rpc);
      for (int e = c; e < kExperts; e += kClients) {
        // No answer at all where the daemon is killed meanwhile.
        const auto reply = nlohmann::json::parse(
            client.post(load_body(e, "uri", uris[std::size_t(e)])).body, nullptr, false);
        if (!reply.is_object() || !reply.contains("result")) continue;
        ++acknowledged;
        const std::lock_guard lock(mutex);
        loaded.insert(e);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  return loaded;
}

TEST(Tiers, StormOfLoadsByUriAndUseOfAllStayWithinTheBudget) {
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a", {.arguments = {"--config", config_in(folder.path())}});
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  const std::vector<std::string> uris = publish(client, Blobs());
  forget_peak(daemon.pid());
  std::atomic<int> acknowledged = 0;
  EXPECT_EQ(load_all(daemon.rpc(), uris, acknowledged).size(), std::size_t{kExperts});
  for (int e = 0; e < kExperts; ++e)
    EXPECT_TRUE(execute(client, e, kWidth).contains("outputs")) << e;
  if (!kIsInstrumented) {
    EXPECT_LE(memory_of(daemon.pid(), "VmHWM"), kBudget + kBeside);
  }
  const auto status = client.result("tenzro_moeExpertStatus", {});
  EXPECT_EQ(status["experts"].size(), std::size_t{kExperts});
  EXPECT_LE(status.value("memory_bytes", kBudget + 1), kBudget);
  EXPECT_GE(status.value("memory_bytes", std::uint64_t{0}), kBudget / 2) << "memory lies idle";
  EXPECT_EQ(status.value("admissions_over_budget", 1), 0);
  EXPECT_GT(status.value("evicted_to_disk", 0), 0);
  // The blobs that were there already are the disk tier: nothing was written twice.
  std::uint64_t bytes = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder.path() + "/a/blobs"))
    if (entry.is_regular_file()) bytes += entry.file_size();
  EXPECT_LE(bytes, (kExperts + 1) * Blobs().of(0).size());
}

TEST(Tiers, KilledInTheMiddleOfLoadsNothingAcknowledgedIsLost) {
  const TempFolder folder;
  const std::string config = config_in(folder.path());
  std::set<int> loaded;
  {
    DaemonProcess daemon(folder.path() + "/a", {.arguments = {"--config", config}});
    ASSERT_TRUE(daemon.is_ready()) << daemon.log();
    const std::vector<std::string> uris = publish(RpcClient(daemon.rpc()), Blobs());
    std::atomic<int> acknowledged = 0;
    std::thread killer([&] {
      while (acknowledged < kExperts / 2) std::this_thread::yield();
      daemon.signal(SIGKILL);
    });
    loaded = load_all(daemon.rpc(), uris, acknowledged);
    killer.join();
    EXPECT_EQ(daemon.wait(), 128 + SIGKILL);
    EXPECT_LT(loaded.size(), std::size_t{kExperts}) << "it was killed too late to show anything";
  }
  DaemonProcess daemon(folder.path() + "/a", {.arguments = {"--config", config}});
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  std::set<int> held;
  const auto status = client.result("tenzro_moeExpertStatus", {});
  for (const auto& row : status["experts"]) held.insert(row.value("expert", -1));
  for (const int expert : loaded) {
    EXPECT_TRUE(held.contains(expert)) << expert;
    EXPECT_TRUE(execute(client, expert, kWidth).contains("outputs")) << expert;
  }
  const std::string partial = folder.path() + "/a/blobs/tmp";
  EXPECT_TRUE(std::filesystem::is_empty(partial)) << "what was cut short is removed";
}

TEST(Tiers, ExpertOfTwiceTheBudgetIsServedFromDiskWithinTheBudget) {
  const TempFolder folder(std::filesystem::current_path().string());
  // 128 MiB in Q8_0, of 64.
  const BufferRef blob = random_expert(1, 4096, 10'400, tensor::WeightType::q8_0);
  ASSERT_GT(blob.size(), 2 * kBudget);
  std::vector<std::string> outputs;
  for (const char* budget : {"64MiB", "1GiB"}) {
    const std::string config = folder.path() + "/" + budget + ".toml";
    std::ofstream(config) << "[holder]\nmemory_budget = \"" << budget << "\"\n";
    DaemonProcess daemon(folder.path() + "/" + budget, {.arguments = {"--config", config}});
    ASSERT_TRUE(daemon.is_ready()) << daemon.log();
    const RpcClient client(daemon.rpc());
    const HttpAnswer put = client.send("PUT", "/blob", {}, std::string(blob.text()));
    ASSERT_EQ(put.status, 201) << put.body;
    const auto uri = nlohmann::json::parse(put.body).value("tenzro_uri", "");
    forget_peak(daemon.pid());
    const auto row = client.result("tenzro_moeExpertLoad",
                                   {{"model_id", "m"}, {"layer", 0}, {"expert", 0}, {"uri", uri}});
    EXPECT_EQ(row.value("expert", -1), 0);
    for (int i = 0; i < 2; ++i) outputs.push_back(execute(client, 0, 4096)["outputs"].dump());
    if (outputs.size() == 2) {
      if (!kIsInstrumented) {
        EXPECT_LE(memory_of(daemon.pid(), "VmHWM"), kBudget + kBeside);
      }
      const auto status = client.result("tenzro_moeExpertStatus", {});
      EXPECT_EQ(status.value("admissions_over_budget", 1), 0);
    }
  }
  for (const std::string& output : outputs) EXPECT_EQ(output, outputs[0]);
}

/// An expert that becomes sixteen times its blob when it is packed; too large even by slices.
TEST(Tiers, NarrowExpertThatNoBudgetTakesIsRefusedByUriAndInlineAndTakesNoMemory) {
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a", {.arguments = {"--config", config_in(folder.path())}});
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  for (const bool is_wide : {true, false}) {
    const std::uint32_t wide = 1'200'000;
    const std::string blob(
        random_expert(1, is_wide ? wide : 1, is_wide ? 1 : wide, tensor::WeightType::f32).text());
    const HttpAnswer put = client.send("PUT", "/blob", {}, blob);
    ASSERT_EQ(put.status, 201) << put.body;
    forget_peak(daemon.pid());
    const auto uri = nlohmann::json::parse(put.body).value("tenzro_uri", "");
    const HttpAnswer by_uri = client.post(load_body(0, "uri", uri));
    const HttpAnswer sent = client.post(load_body(0, "blob_base64", base64_of(blob)));
    for (const HttpAnswer& answer : {by_uri, sent}) {
      const auto reply = nlohmann::json::parse(answer.body);
      const auto error = reply.value("error", nlohmann::json::object());
      const std::string message = error.value("message", "");
      EXPECT_NE(message.find("to be run from disk by slices"), std::string::npos) << answer.body;
    }
    if (!kIsInstrumented) {
      EXPECT_LE(memory_of(daemon.pid(), "VmHWM"), kBudget + kBeside);
    }
  }
  EXPECT_TRUE(client.result("tenzro_moeExpertStatus", {})["experts"].empty());
}

/// The same, packed to less than the budget: it comes in by what it needs.
TEST(Tiers, NarrowExpertThatFitsWhenItIsPackedIsServedWithinTheBudget) {
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a", {.arguments = {"--config", config_in(folder.path())}});
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  constexpr std::uint32_t kWide = 200'000;  // 26 MB packed
  const std::string blob(random_expert(1, kWide, 1, tensor::WeightType::f32).text());
  const HttpAnswer put = client.send("PUT", "/blob", {}, blob);
  ASSERT_EQ(put.status, 201) << put.body;
  const auto uri = nlohmann::json::parse(put.body).value("tenzro_uri", "");
  forget_peak(daemon.pid());
  std::set<std::string> outputs;
  const std::pair<const char*, std::string> sources[] = {{"uri", uri},
                                                         {"blob_base64", base64_of(blob)}};
  for (const auto& [name, value] : sources) {
    const auto reply = nlohmann::json::parse(client.post(load_body(0, name, value)).body);
    EXPECT_TRUE(reply.contains("result")) << reply;
    outputs.insert(execute(client, 0, kWide)["outputs"].dump());
  }
  EXPECT_EQ(outputs.size(), 1U);
  if (!kIsInstrumented) {
    EXPECT_LE(memory_of(daemon.pid(), "VmHWM"), kBudget + kBeside);
  }
  const auto status = client.result("tenzro_moeExpertStatus", {});
  EXPECT_LE(status.value("memory_bytes", kBudget + 1), kBudget);
  EXPECT_EQ(status.value("admissions_over_budget", 1), 0);
}

TEST(Tiers, ModelsWhoseNamesDifferInOddCharactersOnlyAreDifferentModels) {
  const TempFolder folder;
  DaemonProcess daemon(folder.path() + "/a", {.arguments = {"--config", config_in(folder.path())}});
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  const Blobs blobs;
  const std::vector<std::string> names = {"a/b", "a_b", "a:b", "a\\b", "a b", "../a", "A_b"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto row =
        client.result("tenzro_moeExpertLoad", {{"model_id", names[i]},
                                               {"layer", 0},
                                               {"expert", 0},
                                               {"blob_base64", base64_of(blobs.of(int(i)))}});
    EXPECT_EQ(row.value("model_id", ""), names[i]);
  }
  const auto status = client.result("tenzro_moeExpertStatus", {});
  EXPECT_EQ(status["experts"].size(), names.size());
}

/// A cgroup of this test's own; no path where the machine does not allow one.
class MemoryCgroup {
 public:
  explicit MemoryCgroup(std::uint64_t limit_bytes) {
    const std::string name = "/tenzrod-test-" + std::to_string(::getpid());
    const bool is_v1 = std::filesystem::exists("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    const std::string mount = is_v1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    if (::mkdir((mount + name).c_str(), 0755) != 0) return;
    path_ = mount + name;
    std::ofstream limit(path_ + (is_v1 ? "/memory.limit_in_bytes" : "/memory.max"));
    if (limit << limit_bytes << std::flush) return;
    remove();
  }

  ~MemoryCgroup() { remove(); }

  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void remove() {
    if (!path_.empty()) ::rmdir(path_.c_str());
    path_.clear();
  }

  std::string path_;
};

TEST(Tiers, ProcessInASmallCgroupTakesItsBudgetFromIt) {
  if (kIsInstrumented) GTEST_SKIP() << "a sanitizer takes more memory than the cgroup has";
  constexpr std::uint64_t kLimit = 256 * kMiB;
  const MemoryCgroup group(kLimit);
  if (group.path().empty()) GTEST_SKIP() << "this machine lets nobody make a memory cgroup";
  // On a disk: files in memory would count against the group.
  const TempFolder folder(std::filesystem::current_path().string());
  const std::string script = folder.path() + "/inside.sh";
  std::ofstream(script) << "#!/bin/sh\necho $$ > " << group.path() << "/cgroup.procs || exit 99\n"
                        << "exec " << TENZRO_DAEMON << " \"$@\"\n";
  ::chmod(script.c_str(), 0755);
  {
    DaemonProcess daemon(folder.path() + "/a", {.program = script});
    if (!daemon.is_ready() && daemon.wait() == 99)
      GTEST_SKIP() << "this machine lets nobody move a process into a cgroup";
    ASSERT_TRUE(daemon.is_ready()) << daemon.log();
    const RpcClient client(daemon.rpc());
    const auto status = client.result("tenzro_moeExpertStatus", {});
    EXPECT_LE(status.value("memory_budget_bytes", kLimit), kLimit / 10 * 6) << daemon.log();
    EXPECT_NE(daemon.log().find("cgroup"), std::string::npos) << "the computation is logged";
    // Twice what the group allows: it is not killed for it.
    const std::vector<std::string> uris = publish(client, Blobs());
    std::atomic<int> acknowledged = 0;
    EXPECT_EQ(load_all(daemon.rpc(), uris, acknowledged).size(), std::size_t{kExperts});
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(), 0) << daemon.log();
  }
}

}  // namespace
}  // namespace tenzro::testing
