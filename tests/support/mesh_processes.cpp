#include "support/mesh_processes.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "support/traced_layer.hpp"

namespace tenzro::testing {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kConvergenceMax{60};

json read_json(const std::string& path) {
  std::ifstream in(path);
  return json::parse(in, nullptr, false);
}

}  // namespace

MeshNode::MeshNode(std::string folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)) {}

void MeshNode::start(const std::string& bootstrap) {
  const std::string config = folder_ + "/" + name_ + ".toml";
  std::ofstream(config) << "[node]\nname = \"" << name_
                        << "\"\n[gossip]\nheartbeat_s = 1\nttl_s = 3\n"
                        << extra_config;
  DaemonProcess::Options options;
  options.program = program;
  options.environment = environment;
  options.arguments = {"--config", config, "--quic-listen", quic_};
  if (!bootstrap.empty()) {
    options.arguments.emplace_back("--bootstrap");
    options.arguments.push_back(bootstrap);
  }
  process_ = std::make_unique<DaemonProcess>(folder_ + "/" + name_, options);
  ASSERT_TRUE(process_->is_ready()) << process_->log();
  const json addresses = read_json(folder_ + "/" + name_ + "/addresses.json");
  // Comes back to the same port, as a service does.
  quic_ = addresses.value("quic", "");
  endpoint_id_ = addresses.value("endpoint_id", "");
}

std::string MeshNode::entry() const {
  return endpoint_id_ + "@" + quic_;
}

void MeshNode::kill() {
  process_->signal(SIGKILL);
  process_->wait();
  process_.reset();
}

int MeshNode::terminate() {
  process_->signal(SIGTERM);
  const int status = process_->wait();
  process_.reset();
  return status;
}

int MeshNode::wait_for_end() {
  const int status = process_->wait();
  process_.reset();
  return status;
}

MeshProcesses::MeshProcesses(std::size_t nodes, std::size_t replicas, const Prepare& prepare) {
  for (std::size_t i = 0; i < nodes; ++i) {
    nodes_.push_back(std::make_unique<MeshNode>(folder_.path(), "node-" + std::to_string(i)));
    if (prepare) prepare(i, *nodes_.back());
    nodes_.back()->start(i == 0 ? "" : nodes_.front()->entry());
  }
  for (std::size_t i = 0; i < nodes; ++i)
    EXPECT_TRUE(lists_providers(at(i).client(), nodes)) << "node " << i;
  const RpcClient router = this->router();
  const json prepared = prepare_tiny_layer(router);
  const json gate = router.result(
      "tenzro_moeGateLoad", {{"model_id", "tiny"}, {"layer", 0}, {"uri", prepared["gate"]["uri"]}});
  EXPECT_EQ(gate.value("num_experts", 0), kTinyExperts);
  for (const json& expert : prepared["experts"]) {
    for (std::size_t r = 0; r < replicas; ++r) {
      const std::size_t holder = 1 + (expert.value("expert", std::size_t{0}) + r) % (nodes - 1);
      const json row = at(holder).client().result(
          "tenzro_moeExpertLoad", {{"model_id", "tiny"},
                                   {"layer", 0},
                                   {"expert", expert["expert"]},
                                   {"uri", expert.value("uri", "") + "?n=" + at(0).endpoint_id()}});
      EXPECT_EQ(row.value("tier", ""), "memory");
    }
  }
}

bool MeshProcesses::knows(std::size_t index, std::size_t experts, std::size_t replicas) const {
  const RpcClient client = nodes_[index]->client();
  const auto end = std::chrono::steady_clock::now() + kConvergenceMax;
  while (std::chrono::steady_clock::now() < end) {
    const json map = client.result("tenzro_moeShardMap", {{"model_id", "tiny"}});
    std::size_t complete = 0;
    for (const json& row : map["holders"]) {
      const json& holders = row.at("holders");
      const bool has_uris = std::all_of(holders.begin(), holders.end(), [](const json& holder) {
        return holder.contains("blob_uri") && holder["blob_uri"].is_string();
      });
      if (has_uris && row.value("replication", std::size_t{0}) == replicas) ++complete;
    }
    if (complete == experts) return true;
  }
  return false;
}

bool lists_providers(const RpcClient& client, std::size_t providers) {
  const auto end = std::chrono::steady_clock::now() + kConvergenceMax;
  while (std::chrono::steady_clock::now() < end) {
    if (client.result("tenzro_listProviders", json::array()).size() == providers) return true;
  }
  return false;
}

void MeshProcesses::restart(std::size_t index) {
  at(index).start(at(index == 0 ? 1 : 0).entry());
}

std::string outputs_of_one_node(const json& call) {
  const TempFolder folder;
  const DaemonProcess daemon(folder.path() + "/alone");
  EXPECT_TRUE(daemon.is_ready()) << daemon.log();
  const RpcClient client(daemon.rpc());
  load_tiny_layer(client, prepare_tiny_layer(client));
  return client.result("tenzro_moeForward", call).value("outputs", "");
}

double metric_of(const RpcClient& client, const std::string& name) {
  std::istringstream page(client.send("GET", "/metrics", {}, "").body);
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with(name + " ")) return std::stod(line.substr(name.size()));
  }
  ADD_FAILURE() << "no metric " << name;
  return 0;
}

}  // namespace tenzro::testing
