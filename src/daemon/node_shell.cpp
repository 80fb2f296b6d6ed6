#include "node_shell.hpp"

#include <utility>

#include <spdlog/spdlog.h>

#include "tenzro/node/run_job.hpp"

namespace tenzro::daemon {

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
  calls_.emplace(request, std::move(done));
  node::Outbox out;
  node_.on_call(workshop_.loop.now(), request, std::move(call), out);
  apply(std::move(out));
  return request;
}

void NodeShell::cancel(RequestId request) {
  if (calls_.erase(request) == 0) return;
  node::Outbox out;
  node_.on_cancel(workshop_.loop.now(), request, out);
  apply(std::move(out));
}

void NodeShell::apply(node::Outbox actions) {
  for (node::Action& action : actions) {
    if (auto* reply = std::get_if<node::Reply>(&action)) {
      auto done = calls_.extract(reply->request);
      if (done) done.mapped()(std::move(reply->answer));
    } else if (auto* job = std::get_if<node::Run>(&action)) {
      run(std::move(*job));
    } else if (auto* operation = std::get_if<node::Store>(&action)) {
      workshop_.store.submit(operation->id, std::move(operation->op));
    } else {
      spdlog::warn("{}", std::get<node::Notice>(action).text);
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
  auto job = std::make_shared<const work::Job>(std::move(run.job));
  const bool taken = workshop_.pool.submit(priority, [deliver, job, context = workshop_.jobs] {
    deliver(node::run_job(*job, context));
  });
  if (!taken) deliver(fail(ErrorCode::busy, "", "busy: the compute queue is full"));
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
