#pragma once
/// \file
/// A node as the daemon runs it, in a thread of its own, without HTTP: for measuring what one node
/// costs another.
#include <memory>
#include <string>
#include <vector>

#include "tenzro/node/node.hpp"

namespace tenzro::bench {

class BenchNode {
 public:
  struct Options {
    std::string data_dir;
    std::vector<std::string> bootstrap;
    std::size_t threads = 1;
  };

  explicit BenchNode(const Options& options);
  ~BenchNode();
  BenchNode(const BenchNode&) = delete;
  BenchNode& operator=(const BenchNode&) = delete;

  /// Waits for the answer; ends the program, with the error, where there is none.
  rpc::Answer call(rpc::Call call);
  /// The endpoint id, in hex.
  [[nodiscard]] std::string id() const;
  /// "<endpoint id>@ip:port"
  [[nodiscard]] std::string entry() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenzro::bench
