#pragma once
/// \file
/// A node as the daemon runs it, in a thread of its own, without HTTP: for measuring what one node
/// costs another.
#include <memory>
#include <string>
#include <vector>

#include "tenzro/node/node.hpp"
#include "tenzro/store/file_system.hpp"

namespace tenzro::bench {

class BenchNode {
 public:
  struct Options {
    std::string data_dir;
    std::vector<std::string> bootstrap;
    std::size_t threads = 1;
    std::size_t store_threads = 2;
    holder::Options holder{.memory_budget_bytes = 8ULL << 30U};
    /// Instead of the system's files; outlives the node.
    store::FileSystem* files = nullptr;
  };

  explicit BenchNode(const Options& options);
  ~BenchNode();
  BenchNode(const BenchNode&) = delete;
  BenchNode& operator=(const BenchNode&) = delete;

  /// Waits for the answer; ends the program, with the error, where there is none.
  rpc::Answer call(rpc::Call call);
  /// Waits until the node has taken it.
  void set_memory_budget(std::uint64_t bytes);
  /// The endpoint id, in hex.
  [[nodiscard]] std::string id() const;
  /// "<endpoint id>@ip:port"
  [[nodiscard]] std::string entry() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenzro::bench
