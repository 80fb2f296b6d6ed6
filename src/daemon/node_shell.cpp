#include "node_shell.hpp"

#include <utility>

#include <spdlog/spdlog.h>

#include "tenzro/node/run_job.hpp"

namespace tenzro::daemon {
namespace {

/// The pool, as long as a request is wanted: after that its slices do nothing, so that a job ends
/// soon.
class StoppableExecutor final : public compute::Executor {
 public:
  StoppableExecutor(compute::Executor& pool, const std::atomic<bool>& stop)
      : pool_(pool), stop_(stop) {}

  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) override {
    if (stop_) return;
    pool_.parallel_for(count, [&](std::size_t i) {
      if (!stop_) body(i);
    });
  }

  [[nodiscard]] std::size_t concurrency() const override { return pool_.concurrency(); }

 private:
  compute::Executor& pool_;
  const std::atomic<bool>& stop_;
};

/// Runs the job unless it is stopped before or while it runs; then whatever it gave is not used.
work::JobResult run_unless_stopped(const work::Job& job, const work::JobContext& context,
                                   const std::atomic<bool>& stop) {
  const Error stopped{ErrorCode::cancelled, "", "the request is over"};
  if (stop) return fail(stopped);
  StoppableExecutor executor(context.executor, stop);
  work::JobResult result = node::run_job(job, {context.backend, executor, context.identity});
  if (stop) return fail(stopped);
  return result;
}

}  // namespace

NodeShell::NodeShell(const Workshop& workshop, node::Node& node)
    : workshop_(workshop), node_(node), alive_(std::make_shared<bool>(true)) {}

NodeShell::~NodeShell() {
  *alive_ = false;
}

void NodeShell::begin(const std::vector<work::HoldingRow>& rows, std::function<void()> on_ready) {
  on_ready_ = std::move(on_ready);
  node::Outbox out;
  node_.on_index(workshop_.loop.now(), rows, out);
  apply(std::move(out));
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

void NodeShell::apply(node::Outbox actions) {
  for (node::Action& action : actions) {
    if (auto* reply = std::get_if<node::Reply>(&action)) {
      auto call = calls_.extract(reply->request);
      if (!call) continue;
      *call.mapped().stop = true;  // a deadline may have ended it before its jobs
      call.mapped().done(std::move(reply->answer));
    } else if (auto* job = std::get_if<node::Run>(&action)) {
      run(std::move(*job));
    } else if (auto* operation = std::get_if<node::Store>(&action)) {
      workshop_.store.submit(operation->id, std::move(operation->op));
    } else if (const auto* sent = std::get_if<node::SendCall>(&action)) {
      fail_call(sent->id);
    } else if (const auto* notice = std::get_if<node::Notice>(&action)) {
      spdlog::warn("{}", notice->text);
    }
  }
  rearm();
  if (on_ready_ && node_.is_ready()) std::exchange(on_ready_, nullptr)();
}

void NodeShell::run(node::Run run) {
  const auto deliver = [this, alive = alive_, id = run.id](work::JobResult result) {
    workshop_.loop.post([this, alive, id, result = std::move(result)] {
      if (!*alive) return;
      node::Outbox out;
      node_.on_job_done(workshop_.loop.now(), id, result, out);
      apply(std::move(out));
    });
  };
  const auto priority =
      node::is_short(run.job) ? exec::Priority::short_job : exec::Priority::compute;
  StopFlag stop;
  if (run.request) {
    if (const auto call = calls_.find(*run.request); call != calls_.end()) stop = call->second.stop;
  }
  if (stop == nullptr) stop = std::make_shared<std::atomic<bool>>(false);
  auto job = std::make_shared<const work::Job>(std::move(run.job));
  const bool taken =
      workshop_.pool.submit(priority, [deliver, job, stop, context = workshop_.jobs] {
        deliver(run_unless_stopped(*job, context, *stop));
      });
  if (!taken) deliver(fail(ErrorCode::busy, "", "busy: the compute queue is full"));
}

void NodeShell::fail_call(PeerCallId call) {
  workshop_.loop.post([this, alive = alive_, call] {
    if (!*alive) return;
    node::Outbox out;
    node_.on_peer_reply(workshop_.loop.now(), call,
                        fail(ErrorCode::io, "", "cannot be reached: no QUIC endpoint here"), out);
    apply(std::move(out));
  });
}

void NodeShell::on_stored(JobId id, const work::StoreResult& result) {
  node::Outbox out;
  node_.on_store_done(workshop_.loop.now(), id, result, out);
  apply(std::move(out));
}

void NodeShell::rearm() {
  workshop_.loop.arm(node_.next_deadline(), [this, alive = alive_] {
    if (!*alive) return;
    node::Outbox out;
    node_.on_tick(workshop_.loop.now(), out);
    apply(std::move(out));
  });
}

}  // namespace tenzro::daemon
