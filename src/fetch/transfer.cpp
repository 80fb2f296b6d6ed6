#include "transfer.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"

namespace tenzro::fetch {
namespace {

/// Enough for one answer of each source, each cut as echoes are.
constexpr std::size_t kAnswersTextMax = 4096;

}  // namespace

void Transfer::add_waiter(RequestId waiter, std::uint64_t bytes_max) {
  waiters_.push_back({waiter, bytes_max});
}

void Transfer::begin(Instant now) {
  phase_ = Phase::asking;
  progress_at_ = now;
}

bool Transfer::remove_waiter(RequestId waiter, Outbox& out) {
  const auto removed = std::erase_if(
      waiters_, [waiter](const Waiter& waiting) { return waiting.request == waiter; });
  if (removed == 0) return false;
  if (waiters_.empty()) end(work::Leftover::kept, out);
  return true;
}

void Transfer::store(work::StoreOp op, StoreJob job, Outbox& out) {
  const JobId id = shared_.jobs.next();
  jobs_.emplace(id, job);
  out.emplace_back(work::Store{id, std::move(op)});
}

void Transfer::open(Outbox& out) {
  phase_ = Phase::opening;
  store(work::OpenPartial{hash_, size_bytes_}, {}, out);
}

void Transfer::on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out) {
  seen_ = now;
  const auto job = jobs_.extract(id);
  if (!job || is_over()) return;
  if (job.mapped().piece) {
    on_written(now, job.mapped(), result, out);
  } else if (phase_ == Phase::opening) {
    on_opened(now, result, out);
  } else {
    on_checked(now, result, out);
  }
}

void Transfer::on_opened(Instant now, const work::StoreResult& result, Outbox& out) {
  progress_at_ = now;
  if (!result && result.error().code == ErrorCode::no_space) return on_no_room(result.error(), out);
  if (!result) return fail_all(result.error(), work::Leftover::removed, out);
  const auto& opened = std::get<work::OpenedPartial>(*result);
  if (opened.is_complete) return succeed(out);
  no_room_.reset();
  lay_out(opened.there);
  phase_ = Phase::moving;
}

/// Whoever told that size may have made it up: the others are heard first.
void Transfer::on_no_room(const Error& error, Outbox& out) {
  no_room_ = error;
  phase_ = Phase::asking;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].standing == Standing::ready)
      drop(i, "says it has " + std::to_string(size_bytes_) + " bytes", out);
  }
  if (revive_aside()) open(out);
}

void Transfer::on_checked(Instant now, const work::StoreResult& result, Outbox& out) {
  progress_at_ = now;
  if (!result) return fail_all(result.error(), work::Leftover::removed, out);
  if (std::get<work::FinishedPartial>(*result).is_intact) {
    accuse_suspects(out);
    return succeed(out);
  }
  phase_ = Phase::moving;
  on_mismatch(out);
}

void Transfer::on_tick(Instant now, Outbox& out) {
  seen_ = now;
  if (is_over() || phase_ == Phase::waiting) return;
  std::vector<PeerCallId> late;
  for (const auto& [id, call] : calls_) {
    if (call.deadline <= now) late.push_back(id);
  }
  for (const PeerCallId id : late) {
    const auto call = calls_.extract(id);
    if (!call) continue;  // went with its source
    out.emplace_back(work::CancelCall{id});
    on_failure(now, call.mapped(), "did not answer in time", out);
  }
  const bool depends_on_peers = phase_ == Phase::asking || phase_ == Phase::moving;
  if (depends_on_peers && progress_at_ + shared_.options.stall_timeout <= now)
    fail_all(exhausted("nothing has come for too long"), work::Leftover::kept, out);
}

void Transfer::settle(Instant now, Outbox& out) {
  seen_ = now;
  if (size_bytes_ != 0 && !is_over()) refuse_small_waiters(out);
  if (phase_ != Phase::asking && phase_ != Phase::moving) return;
  ask_sizes(now, out);
  if (phase_ == Phase::moving) {
    // Not before the last writes: what they bring must not count as the auditor's.
    if (is_auditing_ && !auditor_ && open_pieces_ == 0) choose_auditor();
    const bool waits_for_auditor = is_auditing_ && !auditor_;
    if (is_whole() && !waits_for_auditor) {
      phase_ = Phase::checking;
      store(work::FinishPartial{hash_}, {}, out);
      return;
    }
  }
  if (has_usable_peer() || open_pieces_ > 0) return;
  const bool is_bad = is_auditing_;
  const bool has_partial = phase_ == Phase::moving;
  if (has_partial && revive_aside()) {
    out.emplace_back(
        work::Store{shared_.jobs.next(), work::ClosePartial{hash_, work::Leftover::removed}});
    refuse_small_waiters(out);
    if (!is_over()) open(out);
    return;
  }
  if (no_room_) return fail_all(*no_room_, work::Leftover::removed, out);
  fail_all(exhausted(is_bad ? "what came does not hash to its name" : "no source could give it"),
           is_bad ? work::Leftover::removed : work::Leftover::kept, out);
}

void Transfer::refuse_small_waiters(Outbox& out) {
  std::vector<Waiter> small;
  std::copy_if(waiters_.begin(), waiters_.end(), std::back_inserter(small),
               [this](const Waiter& waiter) {
                 return waiter.bytes_max != 0 && waiter.bytes_max < size_bytes_;
               });
  for (const Waiter& waiter : small) {
    out.emplace_back(
        Finished{hash_,
                 {waiter.request},
                 fail(ErrorCode::infrastructure, "",
                      "the blob has " + std::to_string(size_bytes_) + " bytes, more than the " +
                          std::to_string(waiter.bytes_max) + " of one reply: use GET /blob/")});
    remove_waiter(waiter.request, out);
  }
}

Error Transfer::exhausted(std::string_view what) const {
  std::string answers;
  for (const Peer& peer : peers_) {
    if (peer.why.empty() || answers.size() > kAnswersTextMax) continue;
    answers += (answers.empty() ? ": " : "; ") + to_hex(peer.source.id) + " " + peer.why;
  }
  return {ErrorCode::infrastructure, "blob " + to_hex(hash_), std::string(what) + answers};
}

void Transfer::succeed(Outbox& out) {
  Finished finished{hash_, {}, size_bytes_};
  for (const Waiter& waiter : waiters_) finished.waiters.push_back(waiter.request);
  waiters_.clear();
  out.emplace_back(std::move(finished));
  phase_ = Phase::waiting;  // there is no partial any more that end() would have to close
  end(work::Leftover::removed, out);
}

void Transfer::fail_all(const Error& error, work::Leftover leftover, Outbox& out) {
  ++shared_.totals.fetches_failed;
  Finished finished{hash_, {}, fail(error)};
  for (const Waiter& waiter : waiters_) finished.waiters.push_back(waiter.request);
  waiters_.clear();
  out.emplace_back(std::move(finished));
  end(leftover, out);
}

void Transfer::end(work::Leftover leftover, Outbox& out) {
  for (const auto& [id, call] : calls_) out.emplace_back(work::CancelCall{id});
  calls_.clear();
  for (const auto& [id, job] : jobs_) {
    if (!job.piece) shared_.orphans.emplace(id, hash_);
  }
  jobs_.clear();
  shared_.pieces_in_flight -= open_pieces_;
  open_pieces_ = 0;
  const bool has_partial =
      phase_ == Phase::opening || phase_ == Phase::moving || phase_ == Phase::checking;
  if (has_partial)
    out.emplace_back(work::Store{shared_.jobs.next(), work::ClosePartial{hash_, leftover}});
  phase_ = Phase::over;
}

std::optional<Instant> Transfer::next_deadline() const {
  std::optional<Instant> earliest;
  const auto consider = [&](Instant deadline) {
    if (!earliest || deadline < *earliest) earliest = deadline;
  };
  for (const auto& [id, call] : calls_) consider(call.deadline);
  if (phase_ != Phase::asking && phase_ != Phase::moving) return earliest;
  consider(progress_at_ + shared_.options.stall_timeout);
  for (const Peer& peer : peers_) {
    const bool can_be_asked = peer.standing == Standing::unasked ||
                              (peer.standing == Standing::ready && !missing_.empty());
    if (can_be_asked && peer.paused_until > seen_) consider(peer.paused_until);
  }
  if (store_paused_until_ > seen_) consider(store_paused_until_);
  if (is_starved_) consider(shared_.bucket.when(seen_, shared_.options.piece_bytes));
  return earliest;
}

}  // namespace tenzro::fetch
