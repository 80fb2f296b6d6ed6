#pragma once
/// \file
/// One real node in one thread: its compute jobs run the real bodies on the CPU backend, its store
/// is a map, its clock stands still unless moved. For tests of what a client sees, without
/// processes or files (sources of prepare jobs are real files).
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/node/node.hpp"

#include "support/map_store.hpp"

namespace tenzro::testing {

class NodeWorld {
 public:
  struct Setup {
    node::Options options;
    /// Called before each store operation; an error is the operation's result.
    std::function<Status(const work::StoreOp&)> store_fault;
    /// Whose key it is.
    std::uint8_t seed = 1;
  };

  NodeWorld() : NodeWorld(Setup{}) {}

  explicit NodeWorld(Setup setup);

  /// Gives the call to the node and works until everything has settled.
  Result<rpc::Answer> call(rpc::Call call);
  /// Gives the call without working; answer(id) tells later.
  RequestId begin(rpc::Call call);
  void cancel(RequestId request);
  /// Works off at most `steps` pieces of work; false when there was none left.
  bool work(std::size_t steps = 1);
  void settle();
  [[nodiscard]] std::optional<Result<rpc::Answer>> answer(RequestId request);
  void advance(Duration by);
  /// To the node's next deadline; false where it has none.
  bool advance_to_deadline();
  void deliver(work::PeerRequest request);
  void deliver(PeerCallId call, const work::CallResult& result);
  /// Calls, cancellations, replies and refusals for peers since the last time, in order.
  [[nodiscard]] std::vector<node::Action> take_peer_actions();

  [[nodiscard]] EndpointId endpoint_id() const { return key_.public_key(); }

  /// A new node over the same store, as after a restart.
  void restart();

  /// Answers downloads; without it they stand among the actions for peers.
  std::function<work::Downloaded(const work::Download&)> web;

  /// Told of each compute job before it is run.
  std::function<void(const work::Job&)> on_run;

  [[nodiscard]] MapStore& store() { return store_; }

  [[nodiscard]] node::Node& node() { return *node_; }

  [[nodiscard]] const std::vector<std::string>& notices() const { return notices_; }

  [[nodiscard]] std::map<BlobHash, BufferRef>& blobs() { return store_.blobs(); }

  /// Gives a peer's request without working.
  PeerRequestId begin_peer(wire::Protocol protocol, const EndpointId& from, BufferRef bytes);
  void cancel_peer(PeerRequestId request);

  [[nodiscard]] std::uint32_t leases(const BlobHash& hash) { return store_.leases(hash); }

  [[nodiscard]] std::size_t jobs_run() const { return jobs_run_; }

 private:
  void take(node::Outbox actions);
  void make_node();
  work::StoreResult run_store(const work::StoreOp& op);

  Setup setup_;
  catalog::Catalog catalog_;
  Prng prng_{7};
  crypto::KeyPair key_;
  std::unique_ptr<compute::Backend> backend_;
  compute::SerialExecutor executor_;
  std::unique_ptr<node::Node> node_;
  Instant now_{std::chrono::seconds(1)};
  std::uint64_t last_request_ = 0;
  std::uint64_t last_peer_request_ = 0;
  std::vector<std::function<void()>> queue_;
  std::map<RequestId, Result<rpc::Answer>> answers_;
  MapStore store_;
  std::vector<node::Action> peer_actions_;
  std::vector<std::string> notices_;
  std::size_t jobs_run_ = 0;
};

/// T out of a successful answer; stops the program, with the error, otherwise.
template <typename T>
T expect_answer(Result<rpc::Answer> answer) {
  if (!answer) {
    std::fprintf(stderr, "call failed: %s\n", answer.error().message().c_str());
    std::abort();
  }
  return std::get<T>(std::move(*answer));
}

}  // namespace tenzro::testing
