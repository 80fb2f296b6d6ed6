// The program `tenzro` against nodes of a mesh: each of them shows the whole of it.
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/mesh_processes.hpp"
#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

constexpr std::chrono::seconds kPatience{60};

/// Its standard output; a test failure where it does not exit with 0.
std::string output_of(const MeshNode& node, const std::string& words) {
  const std::string command = std::string(TENZRO_CLI) + " --rpc http://" + node.rpc() + " " + words;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> chunk{};
  while (const std::size_t got = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    text.append(chunk.data(), got);
  }
  EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << text;
  return text;
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

/// Runs the command until its output holds every word; the last output.
std::string output_with(const MeshNode& node, const std::string& words,
                        const std::vector<std::string>& wanted) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string text;
  do {
    text = output_of(node, words);
    bool has_all = true;
    for (const std::string& word : wanted) has_all = has_all && count_of(text, word) > 0;
    if (has_all) return text;
  } while (std::chrono::steady_clock::now() < end);
  ADD_FAILURE() << "not everything is in\n" << text;
  return text;
}

TEST(Commands, EveryNodeShowsTheWholeMesh) {
  MeshProcesses mesh(3, 2);
  for (std::size_t i = 0; i < mesh.size(); ++i) {
    ASSERT_TRUE(mesh.knows(i, kTinyExperts, 2)) << "node " << i;
    const std::string providers =
        output_with(mesh.at(i), "providers", {"node-0", "node-1", "node-2", "Router"});
    EXPECT_EQ(count_of(providers, "\n"), 1 + mesh.size()) << providers;
    EXPECT_EQ(count_of(providers, "ExpertHolder"), 2U) << providers;
    EXPECT_EQ(count_of(providers, "alive"), mesh.size()) << providers;
    const std::string map =
        output_with(mesh.at(i), "moe shard-map --model-id tiny", {"covered experts"});
    EXPECT_EQ(count_of(map, "Warm"), 2U * kTinyExperts) << map;
    for (std::size_t holder = 1; holder < mesh.size(); ++holder) {
      EXPECT_EQ(count_of(map, mesh.at(holder).endpoint_id().substr(0, 8)), kTinyExperts) << map;
    }
  }
}

TEST(Commands, NodeThatLeftIsNoLongerShown) {
  MeshProcesses mesh(3, 2);
  ASSERT_TRUE(mesh.knows(0, kTinyExperts, 2));
  EXPECT_EQ(mesh.at(2).terminate(), 0);
  ASSERT_TRUE(mesh.knows(0, kTinyExperts, 1));
  const std::string map =
      output_with(mesh.at(0), "moe shard-map --model-id tiny", {"covered experts"});
  EXPECT_EQ(count_of(map, "Warm"), static_cast<std::size_t>(kTinyExperts)) << map;
  EXPECT_EQ(count_of(output_of(mesh.at(0), "providers"), "alive"), 2U);
}

}  // namespace
}  // namespace tenzro::testing
