#pragma once
/// \file
/// A mesh of real processes on loopback: a router with the tiny layer's gate, and holders that
/// fetch its experts from it.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/daemon_process.hpp"
#include "support/rpc_client.hpp"

namespace tenzro::testing {

/// One node of the mesh: its data outlives its process.
class MeshNode {
 public:
  MeshNode(std::string folder, std::string name);

  /// Starts the process and waits until it is ready; the first start has no one to join.
  void start(const std::string& bootstrap);

  [[nodiscard]] bool is_up() const { return process_ != nullptr; }

  [[nodiscard]] DaemonProcess& process() { return *process_; }

  [[nodiscard]] RpcClient client() const { return RpcClient(process_->rpc()); }

  /// "127.0.0.1:port"
  [[nodiscard]] const std::string& rpc() const { return process_->rpc(); }

  /// "<endpoint id>@<host:port>", as a bootstrap entry.
  [[nodiscard]] std::string entry() const;

  [[nodiscard]] const std::string& endpoint_id() const { return endpoint_id_; }

  void kill();
  /// Asks it to end, and waits: the exit status.
  int terminate();
  /// Waits until it ends by itself: the exit status.
  int wait_for_end();

  /// More configuration lines, before the first start.
  std::string extra_config;
  /// Instead of tenzrod, and what its environment says beside ours.
  std::string program;
  std::map<std::string, std::string> environment;

 private:
  std::string folder_;
  std::string name_;
  std::string quic_ = "127.0.0.1:0";
  std::string endpoint_id_;
  std::unique_ptr<DaemonProcess> process_;
};

class MeshProcesses {
 public:
  using Prepare = std::function<void(std::size_t index, MeshNode& node)>;

  /// Node 0 routes; every expert is held by `replicas` of the others. `prepare` sees each node
  /// before it starts.
  MeshProcesses(std::size_t nodes, std::size_t replicas, const Prepare& prepare = {});

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  [[nodiscard]] MeshNode& at(std::size_t index) { return *nodes_[index]; }

  [[nodiscard]] RpcClient router() const { return nodes_.front()->client(); }

  /// Asks the node until its shard map lists `experts` experts with `replicas` holders each, and
  /// what their bytes hash to; whether it came to that within a minute.
  [[nodiscard]] bool knows(std::size_t index, std::size_t experts, std::size_t replicas) const;

  void restart(std::size_t index);

 private:
  TempFolder folder_;
  std::vector<std::unique_ptr<MeshNode>> nodes_;
};

/// Asks the node until it lists that many providers, itself included; whether it came to that
/// within a minute.
[[nodiscard]] bool lists_providers(const RpcClient& client, std::size_t providers);

/// What one process that holds everything answers to a forward of the tiny layer.
[[nodiscard]] std::string outputs_of_one_node(const nlohmann::json& call);

/// A number of the metrics page, by its name without labels; a test failure where there is none.
[[nodiscard]] double metric_of(const RpcClient& client, const std::string& name);

}  // namespace tenzro::testing
