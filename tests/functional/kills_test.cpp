// Real processes killed while bytes are on their way to their disk: nothing acknowledged is lost,
// nothing half written is served.
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"

#include "support/mesh_processes.hpp"
#include "support/one_layer_calls.hpp"
#include "support/random_expert.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMiB = 1ULL << 20U;

/// Bytes on disk of all files directly in a folder; what was only reserved does not count.
std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    struct stat info {};

    if (::stat(entry.path().c_str(), &info) != 0) continue;
    bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

void expect_blobs_to_hash_to_their_names(const std::string& blobs) {
  std::size_t seen = 0;
  for (const auto& folder : std::filesystem::directory_iterator(blobs)) {
    if (!folder.is_directory() || folder.path().filename().string().size() != 2) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), {});
      EXPECT_EQ(to_hex(crypto::blake3(bytes)), entry.path().filename().string());
      ++seen;
    }
  }
  EXPECT_GT(seen, 0U);
}

/// Looks again and again, for a minute at most; whether it came true.
bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(Kills, FetchKilledInTheMiddleServesNothingHalfAndGoesOnAfterTheRestart) {
  constexpr std::uint32_t kWidth = 4096;
  const BufferRef blob = random_expert(1, kWidth, 1600, tensor::WeightType::q8_0);
  ASSERT_GT(blob.size(), 16 * kMiB);
  const TempFolder folder;
  MeshNode holder(folder.path(), "holder");
  MeshNode fetcher(folder.path(), "fetcher");
  fetcher.extra_config = "[holder]\nreceive_rate = \"4MiB\"\n";
  holder.start({});
  const HttpAnswer put = holder.client().send("PUT", "/blob", {}, std::string(blob.text()));
  ASSERT_EQ(put.status, 201) << put.body;
  const std::string uri =
      json::parse(put.body).value("tenzro_uri", "") + "?n=" + holder.endpoint_id();
  ASSERT_EQ(holder.client().post(load_body(0, "uri", uri)).status, 200);
  fetcher.start(holder.entry());
  ASSERT_TRUE(lists_providers(fetcher.client(), 2));

  const std::string partials = folder.path() + "/fetcher/blobs/partial";
  HttpAnswer cut_short;
  std::thread load(
      [&, client = fetcher.client()] { cut_short = client.post(load_body(0, "uri", uri)); });
  const bool has_begun = comes_true([&] { return bytes_in(partials) >= 3 * kMiB; });
  fetcher.kill();
  load.join();
  ASSERT_TRUE(has_begun) << "no part of the blob came: " << cut_short.body;
  EXPECT_EQ(cut_short.status, 0) << "it was killed too late to show anything";
  EXPECT_GT(bytes_in(partials), kMiB) << "what came is kept for later";

  fetcher.start(holder.entry());
  const std::string path = "/blob/" + to_hex(crypto::blake3(blob.bytes()));
  EXPECT_EQ(fetcher.client().send("GET", path, {}, {}).status, 404);
  EXPECT_TRUE(fetcher.client().result("tenzro_moeExpertStatus", {})["experts"].empty());
  ASSERT_TRUE(lists_providers(fetcher.client(), 2));
  const json again = json::parse(fetcher.client().post(load_body(0, "uri", uri)).body);
  ASSERT_TRUE(again.contains("result")) << again;
  EXPECT_EQ(execute(fetcher.client(), 0, kWidth)["outputs"],
            execute(holder.client(), 0, kWidth)["outputs"]);
  EXPECT_EQ(fetcher.client().send("GET", path, {}, {}).body, blob.text());
  EXPECT_EQ(bytes_in(partials), 0U);
}

/// Loads experts with their bytes in the request, until the daemon is gone; those acknowledged.
std::set<int> load_until_gone(const std::string& rpc, const std::string& bytes, int first,
                              std::atomic<int>& acknowledged) {
  constexpr int kClients = 4;
  constexpr int kExperts = 400;
  std::mutex mutex;
  std::set<int> loaded;
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      const RpcClient client(rpc);
      for (int e = first + c; e < first + kExperts; e += kClients) {
        std::string own = bytes;
        own[own.size() - 1] = static_cast<char>(e % 100);
        own[own.size() - 2] = static_cast<char>(e / 100);
        const HttpAnswer answer = client.post(load_body(e, "blob_base64", base64_of(own)));
        if (answer.status == 0) return;
        const json reply = json::parse(answer.body, nullptr, false);
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

TEST(Kills, SpillKilledInTheMiddleLosesNothingAcknowledgedAndLeavesNothingHalf) {
  constexpr std::uint32_t kWidth = 1024;
  const std::string bytes(random_expert(1, kWidth, 640, tensor::WeightType::q8_0).text());
  // On a disk: syncs take time there.
  const TempFolder folder(std::filesystem::current_path().string());
  const std::string blobs = folder.path() + "/a/blobs";
  std::set<int> loaded;
  bool was_in_the_middle = false;
  for (int life = 0; life < 8 && !was_in_the_middle; ++life) {
    DaemonProcess daemon(folder.path() + "/a");
    ASSERT_TRUE(daemon.is_ready()) << daemon.log();
    std::atomic<int> acknowledged = 0;
    std::thread killer([&] {
      comes_true([&] { return acknowledged >= 4 && bytes_in(blobs + "/tmp") > 0; });
      daemon.signal(SIGKILL);
    });
    loaded.merge(load_until_gone(daemon.rpc(), bytes, life * 400, acknowledged));
    killer.join();
    EXPECT_EQ(daemon.wait(), 128 + SIGKILL);
    was_in_the_middle = !std::filesystem::is_empty(blobs + "/tmp");
  }
  EXPECT_TRUE(was_in_the_middle) << "no kill met a file that was being written";
  DaemonProcess daemon(folder.path() + "/a");
  ASSERT_TRUE(daemon.is_ready()) << daemon.log();
  EXPECT_TRUE(std::filesystem::is_empty(blobs + "/tmp"));
  expect_blobs_to_hash_to_their_names(blobs);
  const RpcClient client(daemon.rpc());
  std::set<int> held;
  const json status = client.result("tenzro_moeExpertStatus", {});
  for (const auto& row : status["experts"]) held.insert(row.value("expert", -1));
  for (const int expert : loaded) {
    EXPECT_TRUE(held.contains(expert)) << expert;
    EXPECT_TRUE(execute(client, expert, kWidth).contains("outputs")) << expert;
  }
}

}  // namespace
}  // namespace tenzro::testing
