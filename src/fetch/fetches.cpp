#include "tenzro/fetch/fetches.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/protocol.hpp"

#include "transfer.hpp"

namespace tenzro::fetch {

Fetches::Fetches(const Options& options, work::CallIds& calls, work::JobIds& jobs)
    : shared_(new Shared{options, calls, jobs,
                         TokenBucket(options.receive_bytes_per_s, options.piece_bytes), Totals{}}) {
  TENZRO_ASSERT(options.piece_bytes > 0);
  TENZRO_ASSERT(options.piece_bytes <= wire::kBlobRangeBytesMax);
}

Fetches::~Fetches() = default;

const Totals& Fetches::totals() const {
  return shared_->totals;
}

Status Fetches::start(Instant now, RequestId waiter, const BlobHash& hash,
                      const std::vector<Source>& sources, std::uint64_t bytes_max, Outbox& out) {
  auto it = transfers_.find(hash);
  if (it == transfers_.end()) {
    const std::string name = "blob " + to_hex(hash);
    if (sources.empty())
      return fail(ErrorCode::not_found, name, "is neither here nor held by any provider known");
    if (waiting_.size() >= shared_->options.waiting_max)
      return fail(ErrorCode::busy, name, "too many blobs are being fetched");
    it = transfers_.emplace(hash, std::make_unique<Transfer>(*shared_, hash)).first;
    waiting_.push_back(hash);
    ++shared_->totals.fetches;
  }
  Transfer& transfer = *it->second;
  if (!transfer.has_room())
    return fail(ErrorCode::busy, "blob " + to_hex(hash), "too many requests wait for it");
  transfer.add_waiter(waiter, bytes_max);
  transfer.add_sources(sources);
  advance(now, out);
  return {};
}

void Fetches::on_cancel(Instant now, RequestId waiter, Outbox& out) {
  for (auto& [hash, transfer] : transfers_) transfer->remove_waiter(waiter, out);
  advance(now, out);
}

bool Fetches::on_peer_reply(Instant now, PeerCallId call, const work::CallResult& result,
                            Outbox& out) {
  const auto it = std::find_if(transfers_.begin(), transfers_.end(),
                               [call](const auto& entry) { return entry.second->owns(call); });
  if (it == transfers_.end()) return false;
  it->second->on_reply(now, call, result, out);
  advance(now, out);
  return true;
}

void Fetches::on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out) {
  if (const auto orphan = shared_->orphans.extract(id)) {
    const auto* opened = result ? std::get_if<work::OpenedPartial>(&*result) : nullptr;
    const auto* finished = result ? std::get_if<work::FinishedPartial>(&*result) : nullptr;
    const bool has_lease =
        (opened != nullptr && opened->is_complete) || (finished != nullptr && finished->is_intact);
    if (has_lease)
      out.emplace_back(work::Store{shared_->jobs.next(), work::ReleaseBlob{orphan.mapped()}});
    return;
  }
  const auto it = std::find_if(transfers_.begin(), transfers_.end(),
                               [id](const auto& entry) { return entry.second->owns(id); });
  if (it == transfers_.end()) return;
  it->second->on_store_done(now, id, result, out);
  advance(now, out);
}

void Fetches::on_tick(Instant now, Outbox& out) {
  for (auto& [hash, transfer] : transfers_) transfer->on_tick(now, out);
  advance(now, out);
}

void Fetches::sweep() {
  std::erase_if(transfers_, [](const auto& entry) { return entry.second->is_over(); });
  std::erase_if(waiting_, [this](const BlobHash& hash) { return !transfers_.contains(hash); });
}

void Fetches::advance(Instant now, Outbox& out) {
  // Ends: each round but the last ends a transfer.
  for (std::size_t before = transfers_.size() + 1; transfers_.size() < before;) {
    sweep();
    before = transfers_.size();
    while (!waiting_.empty() &&
           transfers_.size() - waiting_.size() < shared_->options.fetches_max) {
      transfers_.at(waiting_.front())->begin(now);
      waiting_.pop_front();
    }
    for (auto& [hash, transfer] : transfers_) transfer->settle(now, out);
    sweep();
  }
  // One piece each, in turn, beginning after whoever was last: a large blob does not starve a small
  // one.
  auto it = transfers_.upper_bound(last_served_);
  for (std::size_t refusals = 0; refusals < transfers_.size();) {
    if (it == transfers_.end()) it = transfers_.begin();
    const bool has_asked = it->second->ask_for_piece(now, out);
    refusals = has_asked ? 0 : refusals + 1;
    if (has_asked) last_served_ = it->first;
    ++it;
  }
}

std::optional<Instant> Fetches::next_deadline() const {
  std::optional<Instant> earliest;
  for (const auto& [hash, transfer] : transfers_) {
    const std::optional<Instant> deadline = transfer->next_deadline();
    if (deadline && (!earliest || *deadline < *earliest)) earliest = deadline;
  }
  return earliest;
}

}  // namespace tenzro::fetch
