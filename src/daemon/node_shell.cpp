#include "node_shell.hpp"

#include <chrono>
#include <utility>

#include <spdlog/spdlog.h>

#include "tenzro/node/run_job.hpp"

#include "disk_room.hpp"
#include "downloader.hpp"
#include "http_caller.hpp"

namespace tenzro::daemon {
namespace {

std::uint64_t wall_ms() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

NodeShell::NodeShell(const Workshop& workshop, node::Node& node)
    : workshop_(workshop),
      node_(node),
      signing_(workshop.jobs.identity),
      alive_(std::make_shared<bool>(true)) {}

NodeShell::~NodeShell() {
  *alive_ = false;
}

/// A gossiping node ticks at least once a heartbeat. A file system that does not answer keeps a
/// thread of the store and not the loop: the last figure stands.
void NodeShell::look_at_disk() {
  constexpr Duration kEvery = std::chrono::seconds(1);
  const Instant now = workshop_.loop.now();
  if (is_looking_at_disk_ || (disk_looked_at_ != Instant{} && now - disk_looked_at_ < kEvery))
    return;
  disk_looked_at_ = now;
  is_looking_at_disk_ =
      workshop_.store.run_beside([this, alive = alive_, &loop = workshop_.loop,
                                  &store = workshop_.store, blob_dir = workshop_.blob_dir] {
        const std::uint64_t room = disk_room(blob_dir, store.usage());
        loop.post([this, alive, room] {
          if (!*alive) return;
          is_looking_at_disk_ = false;
          node_.set_disk_free(room);
          apply({});
        });
      });
}

void NodeShell::begin(const std::vector<work::HoldingRow>& rows,
                      const std::vector<work::LoggedJob>& jobs, std::function<void()> on_ready) {
  on_ready_ = std::move(on_ready);
  look_at_disk();
  node::Outbox out;
  node_.on_index(workshop_.loop.now(), rows, out);
  node_.on_job_log(workshop_.loop.now(), jobs, out);
  node_.join_mesh(workshop_.loop.now(), wall_ms(), signing_, out);
  apply(std::move(out));
}

void NodeShell::leave(std::function<void()> done) {
  on_left_ = std::move(done);
  node::Outbox out;
  node_.leave(workshop_.loop.now(), out);
  apply(std::move(out));
}

void NodeShell::set_memory_budget(std::uint64_t bytes) {
  node::Outbox out;
  node_.set_memory_budget(workshop_.loop.now(), bytes, out);
  apply(std::move(out));
}

void NodeShell::when_peers_are_served(std::function<void()> done) {
  on_served_ = std::move(done);
  apply({});
}

RequestId NodeShell::call(rpc::Call call, Done done) {
  const RequestId request{++last_request_};
  calls_.emplace(request, Call{std::move(done), std::make_shared<std::atomic<bool>>(false)});
  node::Outbox out;
  node_.on_call(workshop_.loop.now(), request, std::move(call), out);
  apply(std::move(out));
  return request;
}

void NodeShell::cancel(RequestId request) {
  auto call = calls_.extract(request);
  if (!call) return;
  *call.mapped().stop = true;
  node::Outbox out;
  node_.on_cancel(workshop_.loop.now(), request, out);
  apply(std::move(out));
}

/// One function an action: a new kind does not compile until it is handled here.
struct NodeShell::Effects {
  NodeShell& shell;

  void operator()(node::Reply& reply) const {
    auto call = shell.calls_.extract(reply.request);
    if (!call) return;
    *call.mapped().stop = true;  // a deadline may have ended it before its jobs
    call.mapped().done(std::move(reply.answer));
  }

  void operator()(node::Run& run) const { shell.run(std::move(run)); }

  void operator()(node::Store& store) const {
    shell.workshop_.store.submit(store.id, std::move(store.op));
  }

  void operator()(node::Notice& notice) const { spdlog::warn("{}", notice.text); }

  void operator()(node::SendCall& call) const {
    if (shell.endpoint_ == nullptr) {
      return shell.fail_call(call.id, {ErrorCode::io, "", "no QUIC endpoint is open"});
    }
    net::Target target{call.target.id, std::move(call.target.addresses)};
    shell.endpoint_->call(call.id, target, call.protocol, std::move(call.request));
  }

  void operator()(node::SendHttpCall& call) const {
    if (shell.http_caller_ == nullptr) {
      return shell.fail_call(call.id, {ErrorCode::io, call.endpoint, "no HTTP client is open"});
    }
    shell.http_caller_->call(std::move(call));
  }

  void operator()(node::Download& download) const {
    if (shell.downloader_ != nullptr) return shell.downloader_->download(std::move(download));
    shell.workshop_.loop.post([&shell = shell, alive = shell.alive_, id = download.id] {
      if (*alive) shell.on_downloaded(id, {.failure = "no HTTP client is open"});
    });
  }

  void operator()(node::CancelCall& call) const {
    // One of them knows it.
    if (shell.downloader_ != nullptr) shell.downloader_->cancel(call.id);
    if (shell.endpoint_ != nullptr) shell.endpoint_->cancel(call.id);
    if (shell.http_caller_ != nullptr) shell.http_caller_->cancel(call.id);
  }

  void operator()(node::SendReply& reply) const {
    shell.end_peer_work(reply.id);
    if (shell.endpoint_ != nullptr) shell.endpoint_->reply(reply.id, std::move(reply.reply));
  }

  void operator()(node::RefuseRequest& refusal) const {
    shell.end_peer_work(refusal.id);
    if (shell.endpoint_ != nullptr) shell.endpoint_->refuse(refusal.id);
  }
};

void NodeShell::apply(node::Outbox actions) {
  for (node::Action& action : actions) std::visit(Effects{*this}, action);
  // Before anything else that the loop has to do: whoever called is waiting for these.
  while (!done_here_.empty()) {
    node::Outbox out;
    const auto& [id, result] = done_here_.front();
    node_.on_job_done(workshop_.loop.now(), id, result, out);
    done_here_.pop_front();
    for (node::Action& action : out) std::visit(Effects{*this}, action);
  }
  rearm();
  if (on_ready_ && node_.is_ready()) std::exchange(on_ready_, nullptr)();
  if (on_left_ && node_.has_left(workshop_.loop.now())) std::exchange(on_left_, nullptr)();
  if (on_drained_ && node_.is_drained()) std::exchange(on_drained_, nullptr)();
  if (on_served_ && node_.peer_requests_in_progress() == 0) std::exchange(on_served_, nullptr)();
}

void NodeShell::fail_call(PeerCallId call, Error error) {
  workshop_.loop.post([this, alive = alive_, call, error = std::move(error)] {
    if (*alive) on_reply(call, fail(error));
  });
}

void NodeShell::on_reply(PeerCallId call, Result<net::Reply> reply) {
  work::CallResult result = fail(ErrorCode::io, "", "");
  if (reply) {
    result = work::CallReply{reply->from, std::move(reply->bytes)};
  } else {
    result = fail(std::move(reply.error()));
  }
  on_peer_reply(call, result);
}

void NodeShell::on_peer_reply(PeerCallId call, const work::CallResult& result) {
  node::Outbox out;
  node_.on_peer_reply(workshop_.loop.now(), call, result, out);
  apply(std::move(out));
}

void NodeShell::on_downloaded(PeerCallId call, const work::Downloaded& downloaded) {
  node::Outbox out;
  node_.on_downloaded(workshop_.loop.now(), call, downloaded, out);
  apply(std::move(out));
}

void NodeShell::end_peer_work(PeerRequestId request) {
  const auto stop = peer_stops_.extract(request);
  if (stop) *stop.mapped() = true;
}

void NodeShell::on_request(net::Request request) {
  peer_stops_.emplace(request.id, std::make_shared<std::atomic<bool>>(false));
  node::Outbox out;
  node_.on_peer_request(workshop_.loop.now(),
                        {.id = request.id,
                         .from = request.from,
                         .address = std::move(request.address),
                         .protocol = request.protocol,
                         .bytes = std::move(request.bytes)},
                        out);
  apply(std::move(out));
}

void NodeShell::on_request_cancelled(PeerRequestId request) {
  end_peer_work(request);
  node::Outbox out;
  node_.on_peer_request_cancelled(workshop_.loop.now(), request, out);
  apply(std::move(out));
}

void NodeShell::tick() {
  // After a suspend or a step of the clock the two clocks no longer agree.
  node_.set_wall(workshop_.loop.now(), wall_ms());
  look_at_disk();
  node::Outbox out;
  node_.on_tick(workshop_.loop.now(), out);
  apply(std::move(out));
}

std::function<void(work::JobResult)> NodeShell::delivery_of(JobId id) {
  return [this, &loop = workshop_.loop, alive = alive_, id](work::JobResult result) {
    loop.post([this, &loop, alive, id, result = std::move(result)] {
      if (!*alive) return;
      node::Outbox out;
      node_.on_job_done(loop.now(), id, result, out);
      apply(std::move(out));
    });
  };
}

StopFlag NodeShell::stop_flag_of(const node::Run& run) const {
  if (run.request) {
    if (const auto call = calls_.find(*run.request); call != calls_.end()) return call->second.stop;
  }
  if (run.peer_request) {
    const auto peer = peer_stops_.find(*run.peer_request);
    if (peer != peer_stops_.end()) return peer->second;
  }
  return std::make_shared<std::atomic<bool>>(false);
}

void NodeShell::run(node::Run run) {
  const StopFlag stop = stop_flag_of(run);
  const Instant begin = workshop_.loop.now();
  if (node::is_tiny(run.job) && share_.has_room(begin)) {
    compute::SerialExecutor here;
    const work::JobContext& jobs = workshop_.jobs;
    done_here_.emplace_back(
        run.id,
        run_unless_stopped(run.job, {jobs.backend, here, jobs.identity, jobs.base64}, *stop));
    share_.spend(begin, workshop_.loop.now());
    return;
  }
  start_job(workshop_, std::move(run.job), stop, delivery_of(run.id));
}

void NodeShell::on_stored(JobId id, const work::StoreResult& result) {
  node::Outbox out;
  node_.on_store_done(workshop_.loop.now(), id, result, out);
  apply(std::move(out));
}

void NodeShell::rearm() {
  workshop_.loop.arm(node_.next_deadline(), [this, alive = alive_] {
    if (!*alive) return;
    tick();
  });
}

}  // namespace tenzro::daemon
