#pragma once
/// \file
/// Runs a Node: turns its actions into pool jobs, store operations and replies, and their results
/// into events.
///
/// Translates and does nothing else. Thread: the loop's; results come back by post.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tenzro/exec/loop.hpp"
#include "tenzro/exec/pool.hpp"
#include "tenzro/node/node.hpp"
#include "tenzro/store/store.hpp"
#include "tenzro/work/bodies.hpp"

namespace tenzro::daemon {

/// What the jobs and operations of a node run on; all outlive the shell.
struct Workshop {
  exec::Loop& loop;
  exec::Pool& pool;
  store::Store& store;
  work::JobContext jobs;
};

class NodeShell {
 public:
  using Done = std::function<void(Result<rpc::Answer>)>;
  /// Set when a request's work is worth nothing any more: its jobs end at their next slice.
  using StopFlag = std::shared_ptr<std::atomic<bool>>;

  NodeShell(const Workshop& workshop, node::Node& node);
  ~NodeShell();
  NodeShell(const NodeShell&) = delete;
  NodeShell& operator=(const NodeShell&) = delete;

  /// Gives the node what the store remembers; `on_ready` is called once its gates are loaded.
  void begin(const std::vector<work::HoldingRow>& rows, std::function<void()> on_ready);
  /// `done` is called once, perhaps before this returns, unless the call is cancelled first.
  RequestId call(rpc::Call call, Done done);
  void cancel(RequestId request);

  /// A store operation of the node is over. The loop's thread.
  void on_stored(JobId id, const work::StoreResult& result);

  [[nodiscard]] node::Node& node() { return node_; }

 private:
  void apply(node::Outbox actions);
  void run(node::Run run);
  /// This daemon has no QUIC endpoint: nobody can be called.
  void fail_call(PeerCallId call);
  void rearm();

  Workshop workshop_;
  node::Node& node_;

  struct Call {
    Done done;
    StopFlag stop;
  };

  std::map<RequestId, Call> calls_;
  std::function<void()> on_ready_;
  std::uint64_t last_request_ = 0;
  /// False after destruction: results still on their way are dropped.
  std::shared_ptr<bool> alive_;
};

}  // namespace tenzro::daemon
