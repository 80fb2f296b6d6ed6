#include "support/node_world.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include <sys/stat.h>

#include "tenzro/crypto/blake3.hpp"
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

work::StoreResult read_source(const work::ReadSource& op) {
  std::ifstream in(op.root + "/" + op.file, std::ios::binary);
  if (!in) return fail(ErrorCode::not_found, op.file, "is not there");
  in.seekg(static_cast<std::streamoff>(op.offset));
  std::string bytes(op.length, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(op.length));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  if (bytes.size() < op.length && !op.allow_short)
    return fail(ErrorCode::io, op.file, "is too short");
  return work::ReadBytes{BufferRef::copy_of(bytes)};
}

work::StoreResult stat_source(const work::StatSource& op) {
  struct stat info {};

  if (::stat((op.root + "/" + op.file).c_str(), &info) != 0) return work::SourceStat{};
  return work::SourceStat{true, S_ISDIR(info.st_mode), static_cast<std::uint64_t>(info.st_size)};
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
  std::vector<work::HoldingRow> rows;
  for (const auto& [key, row] : rows_) rows.push_back(row);
  node::Outbox out;
  node_->on_index(now_, rows, out);
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
    } else if (const auto* notice = std::get_if<node::Notice>(&action)) {
      notices_.push_back(notice->text);
    } else {
      peer_actions_.push_back(std::move(action));
    }
  }
}

work::StoreResult NodeWorld::run_store(const work::StoreOp& op) {
  if (setup_.store_fault) {
    if (auto status = setup_.store_fault(op); !status) return fail(status.error());
  }
  if (const auto* save = std::get_if<work::SaveHolding>(&op)) {
    if (!save->blob.empty()) blobs_.insert_or_assign(save->row.hash, save->blob);
    rows_.insert_or_assign({save->row.layer, save->row.expert}, save->row);
    return work::Saved{};
  }
  if (const auto* remove = std::get_if<work::RemoveHolding>(&op)) {
    return work::Removed{rows_.erase({remove->layer, remove->expert}) > 0};
  }
  if (const auto* publish = std::get_if<work::PublishBlob>(&op)) {
    const BlobHash hash = crypto::blake3(publish->bytes.bytes());
    blobs_.insert_or_assign(hash, publish->bytes);
    return work::Published{hash, publish->bytes.size()};
  }
  if (const auto* read = std::get_if<work::ReadBlob>(&op)) {
    const auto it = blobs_.find(read->hash);
    if (it == blobs_.end()) return fail(ErrorCode::not_found, "", "blob is not in the store");
    return work::ReadBytes{it->second};
  }
  if (const auto* quarantine = std::get_if<work::QuarantineBlob>(&op)) {
    const auto blob = blobs_.find(quarantine->hash);
    const bool is_intact =
        blob != blobs_.end() && crypto::blake3(blob->second.bytes()) == quarantine->hash;
    if (is_intact) return work::Removed{false};
    blobs_.erase(quarantine->hash);
    std::erase_if(rows_, [&](const auto& row) { return row.second.hash == quarantine->hash; });
    return work::Removed{true};
  }
  if (const auto* source = std::get_if<work::ReadSource>(&op)) return read_source(*source);
  if (const auto* stat = std::get_if<work::StatSource>(&op)) return stat_source(*stat);
  return run_partial(op);
}

work::StoreResult NodeWorld::run_partial(const work::StoreOp& op) {
  if (const auto* open = std::get_if<work::OpenPartial>(&op)) {
    if (blobs_.contains(open->hash)) {
      ++leases_[open->hash];
      return work::OpenedPartial{.is_complete = true};
    }
    partials_[open->hash].assign(open->size_bytes, '\0');
    return work::OpenedPartial{};
  }
  if (const auto* write = std::get_if<work::WritePartial>(&op)) {
    partials_.at(write->hash).replace(write->offset, write->bytes.size(), write->bytes.text());
    return work::WrittenPartial{crypto::blake3(write->bytes.bytes())};
  }
  if (const auto* finish = std::get_if<work::FinishPartial>(&op)) {
    const std::string& bytes = partials_.at(finish->hash);
    if (crypto::blake3(bytes) != finish->hash) return work::FinishedPartial{false};
    blobs_.insert_or_assign(finish->hash, BufferRef::copy_of(bytes));
    partials_.erase(finish->hash);
    ++leases_[finish->hash];
    return work::FinishedPartial{true};
  }
  if (const auto* close = std::get_if<work::ClosePartial>(&op)) {
    partials_.erase(close->hash);
    return work::Saved{};
  }
  if (const auto* release = std::get_if<work::ReleaseBlob>(&op)) {
    leases_[release->hash] -= release->leases;
    const bool is_held = std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
      return row.second.hash == release->hash;
    });
    if (leases_[release->hash] == 0 && !release->is_kept && !is_held) blobs_.erase(release->hash);
    return work::Removed{true};
  }
  const auto& range = std::get<work::ReadBlobRange>(op);
  const auto it = blobs_.find(range.hash);
  if (it == blobs_.end()) return fail(ErrorCode::not_found, "", "blob is not in the store");
  if (range.offset + range.length > it->second.size())
    return fail(ErrorCode::invalid_params, "range", "is not inside the blob");
  return work::BlobRange{it->second.slice(range.offset, range.length), it->second.size()};
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
