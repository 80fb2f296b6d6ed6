#pragma once
/// \file
/// Runs a Node: turns its actions into pool jobs, store operations, replies and calls to peers, and
/// their results into events.
///
/// Translates and decides nothing but where a job runs: tiny ones at once on the loop, within its
/// LoopShare, the others where start_job says. Thread: the loop's; results come back by post.
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tenzro/crypto/signing.hpp"
#include "tenzro/net/endpoint.hpp"
#include "tenzro/node/node.hpp"

#include "job_start.hpp"
#include "loop_share.hpp"
#include "workshop.hpp"

namespace tenzro::daemon {

class Downloader;
class HttpCaller;

class NodeShell final : public net::Handler {
 public:
  using Done = std::function<void(Result<rpc::Answer>)>;

  NodeShell(const Workshop& workshop, node::Node& node);
  ~NodeShell() override;
  NodeShell(const NodeShell&) = delete;
  NodeShell& operator=(const NodeShell&) = delete;

  /// Where calls to peers go; null before it is bound: then they fail. It outlives the shell's use.
  void set_endpoint(net::Endpoint* endpoint) { endpoint_ = endpoint; }

  /// Where calls to peers without QUIC go; as above. Its answers are given to on_peer_reply.
  void set_http_caller(HttpCaller* caller) { http_caller_ = caller; }

  /// Where downloads go; as above. Its answers are given to on_downloaded.
  void set_downloader(Downloader* downloader) { downloader_ = downloader; }

  void on_peer_reply(PeerCallId call, const work::CallResult& result);
  void on_downloaded(PeerCallId call, const work::Downloaded& downloaded);

  /// Gives the node what the store remembers and lets it join the mesh, its addresses being known;
  /// `on_ready` is called once its gates are loaded.
  void begin(const std::vector<work::HoldingRow>& rows, const std::vector<work::LoggedJob>& jobs,
             std::function<void()> on_ready);
  /// `done` is called once, perhaps before this returns, unless the call is cancelled first.
  RequestId call(rpc::Call call, Done done);
  void cancel(RequestId request);

  /// A store operation of the node is over. The loop's thread.
  void on_stored(JobId id, const work::StoreResult& result);

  void on_reply(PeerCallId call, Result<net::Reply> reply) override;
  void on_request(net::Request request) override;
  void on_request_cancelled(PeerRequestId request) override;

  /// Says goodbye to the mesh; `done` is called when it was heard, or after two seconds at most.
  void leave(std::function<void()> done);
  void set_memory_budget(std::uint64_t bytes);
  /// `done` is called once no request of a peer is in progress.
  void when_peers_are_served(std::function<void()> done);

  /// `done` is called once a drain of the node is over, if it ever is.
  void when_drained(std::function<void()> done) { on_drained_ = std::move(done); }

  /// Lets the node act on a time that has come, or on what its owner changed.
  void tick();

  [[nodiscard]] node::Node& node() { return node_; }

 private:
  struct Effects;

  void apply(node::Outbox actions);
  void run(node::Run run);
  /// Hands a job's result to the loop; any thread may call it.
  [[nodiscard]] std::function<void(work::JobResult)> delivery_of(JobId id);
  [[nodiscard]] StopFlag stop_flag_of(const node::Run& run) const;
  void fail_call(PeerCallId call, Error error);
  /// Jobs for that request are worth nothing any more.
  void end_peer_work(PeerRequestId request);
  void rearm();
  void look_at_disk();

  Workshop workshop_;
  node::Node& node_;
  LoopShare share_;
  /// Results of tiny jobs that the node has not heard of yet; empty whenever apply() returns.
  std::deque<std::pair<JobId, work::JobResult>> done_here_;

  struct Call {
    Done done;
    StopFlag stop;
  };

  std::map<RequestId, Call> calls_;
  /// Of peers' requests that have no reply yet; as many as the endpoint lets in.
  std::map<PeerRequestId, StopFlag> peer_stops_;
  net::Endpoint* endpoint_ = nullptr;
  HttpCaller* http_caller_ = nullptr;
  Downloader* downloader_ = nullptr;
  std::function<void()> on_ready_;
  std::function<void()> on_left_;
  std::function<void()> on_served_;
  std::function<void()> on_drained_;
  Instant disk_looked_at_;
  bool is_looking_at_disk_ = false;
  crypto::KeySigning signing_;
  std::uint64_t last_request_ = 0;
  /// False after destruction: results still on their way are dropped.
  std::shared_ptr<bool> alive_;
};

}  // namespace tenzro::daemon
