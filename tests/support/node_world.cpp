#include "support/node_world.hpp"

#include <cstdio>
#include <cstdlib>

#include "tenzro/kernels/cpu.hpp"
#include "tenzro/node/run_job.hpp"

namespace tenzro::testing {
namespace {

catalog::Catalog builtin_catalog() {
  auto catalog = catalog::Catalog::builtin();
  if (!catalog) {
    std::fprintf(stderr, "%s\n", catalog.error().message().c_str());
    std::abort();
  }
  return std::move(*catalog);
}

}  // namespace

NodeWorld::NodeWorld(Setup setup)
    : setup_(std::move(setup)),
      catalog_(builtin_catalog()),
      key_(crypto::KeyPair::from_seed(crypto::Seed{setup_.seed})) {
  auto backend = kernels::make_cpu_backend({});
  if (!backend) std::abort();
  backend_ = std::move(*backend);
  make_node();
}

void NodeWorld::make_node() {
  const node::About about{.version = "test",
                          .name = "world",
                          .endpoint_id = key_.public_key(),
                          .provider = key_.address(),
                          .compute_backend = std::string(backend_->name())};
  node_ = std::make_unique<node::Node>(setup_.options, about, catalog_, prng_);
  node::Outbox out;
  node_->on_index(now_, store_.rows(), out);
  node_->on_job_log(now_, store_.jobs(), out);
  take(std::move(out));
}

void NodeWorld::restart() {
  queue_.clear();
  make_node();
}

void NodeWorld::take(node::Outbox actions) {
  for (node::Action& action : actions) {
    if (auto* reply = std::get_if<node::Reply>(&action)) {
      answers_.emplace(reply->request, std::move(reply->answer));
    } else if (auto* run = std::get_if<node::Run>(&action)) {
      queue_.emplace_back([this, run = std::move(*run)] {
        ++jobs_run_;
        if (on_run) on_run(run.job);
        const work::JobResult result = node::run_job(run.job, {*backend_, executor_, key_});
        node::Outbox out;
        node_->on_job_done(now_, run.id, result, out);
        take(std::move(out));
      });
    } else if (auto* store = std::get_if<node::Store>(&action)) {
      queue_.emplace_back([this, store = std::move(*store)] {
        const work::StoreResult result = run_store(store.op);
        node::Outbox out;
        node_->on_store_done(now_, store.id, result, out);
        take(std::move(out));
      });
    } else if (web && std::holds_alternative<node::Download>(action)) {
      queue_.emplace_back([this, download = std::get<node::Download>(std::move(action))] {
        const work::Downloaded downloaded = web(download);
        node::Outbox out;
        node_->on_downloaded(now_, download.id, downloaded, out);
        take(std::move(out));
      });
    } else if (auto* notice = std::get_if<node::Notice>(&action)) {
      notices_.push_back(std::move(notice->text));
    } else {
      peer_actions_.push_back(std::move(action));
    }
  }
}

work::StoreResult NodeWorld::run_store(const work::StoreOp& op) {
  if (setup_.store_fault) {
    if (auto status = setup_.store_fault(op); !status) return fail(status.error());
  }
  return store_.run(op);
}

RequestId NodeWorld::begin(rpc::Call call) {
  const RequestId request{++last_request_};
  node::Outbox out;
  node_->on_call(now_, request, std::move(call), out);
  take(std::move(out));
  return request;
}

void NodeWorld::cancel(RequestId request) {
  node::Outbox out;
  node_->on_cancel(now_, request, out);
  take(std::move(out));
}

PeerRequestId NodeWorld::begin_peer(wire::Protocol protocol, const EndpointId& from,
                                    BufferRef bytes) {
  const PeerRequestId request{++last_peer_request_};
  node::Outbox out;
  node_->on_peer_request(now_,
                         {.id = request,
                          .from = from,
                          .address = "192.0.2.1:7",
                          .protocol = protocol,
                          .bytes = std::move(bytes)},
                         out);
  take(std::move(out));
  return request;
}

void NodeWorld::cancel_peer(PeerRequestId request) {
  node::Outbox out;
  node_->on_peer_request_cancelled(now_, request, out);
  take(std::move(out));
}

bool NodeWorld::work(std::size_t steps) {
  for (std::size_t i = 0; i < steps; ++i) {
    if (queue_.empty()) return false;
    const std::function<void()> next = std::move(queue_.front());
    queue_.erase(queue_.begin());
    next();
  }
  return true;
}

void NodeWorld::settle() {
  while (work()) {
  }
}

Result<rpc::Answer> NodeWorld::call(rpc::Call call) {
  const RequestId request = begin(std::move(call));
  settle();
  auto answer = answers_.extract(request);
  if (!answer) return fail(ErrorCode::internal, "", "the call was never answered");
  return std::move(answer.mapped());
}

std::optional<Result<rpc::Answer>> NodeWorld::answer(RequestId request) {
  auto answer = answers_.extract(request);
  if (!answer) return std::nullopt;
  return std::move(answer.mapped());
}

bool NodeWorld::advance_to_deadline() {
  const auto deadline = node_->next_deadline();
  if (!deadline) return false;
  advance(std::max(Duration(0), *deadline - now_));
  return true;
}

void NodeWorld::deliver(work::PeerRequest request) {
  node::Outbox out;
  node_->on_peer_request(now_, std::move(request), out);
  take(std::move(out));
}

void NodeWorld::deliver(PeerCallId call, const work::CallResult& result) {
  node::Outbox out;
  node_->on_peer_reply(now_, call, result, out);
  take(std::move(out));
}

std::vector<node::Action> NodeWorld::take_peer_actions() {
  return std::exchange(peer_actions_, {});
}

void NodeWorld::advance(Duration by) {
  now_ = now_ + by;
  node::Outbox out;
  node_->on_tick(now_, out);
  take(std::move(out));
}

}  // namespace tenzro::testing
