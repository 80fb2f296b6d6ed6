#pragma once
/// \file
/// Transfer: one blob on its way (see fetches.hpp for the rules).
///
/// Waits for its turn, asks sizes, opens the partial, moves pieces, has the whole checked; a check
/// that fails goes back to moving, with one source as the auditor. After every event `settle` looks
/// whether that can go on. transfer.cpp: phases; pieces.cpp: pieces and audits; peers.cpp: sources.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tenzro/wire/blob_message.hpp"

#include "shared.hpp"

namespace tenzro::fetch {

class Transfer {
 public:
  Transfer(Shared& shared, const BlobHash& hash) : shared_(shared), hash_(hash) {}

  [[nodiscard]] bool has_room() const { return waiters_.size() < shared_.options.waiters_max; }

  void add_waiter(RequestId waiter, std::uint64_t bytes_max);
  void add_sources(const std::vector<Source>& sources);
  void begin(Instant now);
  /// False where there is no such waiter. After the last one the transfer is over.
  bool remove_waiter(RequestId waiter, Outbox& out);

  void on_reply(Instant now, PeerCallId id, const work::CallResult& result, Outbox& out);
  void on_downloaded(Instant now, PeerCallId id, const work::Downloaded& downloaded, Outbox& out);
  void on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out);
  void on_tick(Instant now, Outbox& out);
  /// Whatever follows from the last event.
  void settle(Instant now, Outbox& out);
  /// Asks for one more piece, if window, rate and sources allow it.
  bool ask_for_piece(Instant now, Outbox& out);

  [[nodiscard]] bool owns(PeerCallId call) const { return calls_.contains(call); }

  [[nodiscard]] bool owns(JobId job) const { return jobs_.contains(job); }

  [[nodiscard]] bool is_over() const { return phase_ == Phase::over; }

  [[nodiscard]] std::optional<Instant> next_deadline() const;

 private:
  enum class Phase : std::uint8_t { waiting, asking, opening, moving, checking, over };
  /// What is known of a source: nothing, asked, has the blob, tells another size, not used again.
  enum class Standing : std::uint8_t { unasked, asked, ready, aside, gone };

  struct Peer {
    Source source;
    Standing standing = Standing::unasked;
    std::uint64_t size_bytes = 0;  ///< as it told
    std::size_t in_flight = 0;
    std::size_t failures = 0;  ///< in a row
    std::size_t refusals = 0;  ///< of the question for the size
    Instant paused_until{};
    Duration pause{};
    std::string why;  ///< its last failure
    bool has_lied = false;
  };

  struct Piece {
    std::optional<std::size_t> giver;  ///< index of a peer; nobody: it was on disk
    BlobHash hash{};
    /// What another peer had given before the auditor was asked.
    std::optional<std::size_t> suspect;
    BlobHash suspect_hash{};
  };

  struct Call {
    std::size_t peer = 0;
    std::optional<std::uint32_t> piece;
    wire::BlobRequest request;
    Instant deadline;
    BufferRef room = {};  ///< over HTTP: where its answer's bytes go
  };

  struct StoreJob {
    std::optional<std::uint32_t> piece;  ///< a write; else it opens or finishes
    std::size_t peer = 0;
  };

  struct Waiter {
    RequestId request{};
    std::uint64_t bytes_max = 0;
  };

  // transfer.cpp
  void open(Outbox& out);
  void on_opened(Instant now, const work::StoreResult& result, Outbox& out);
  void on_no_room(const Error& error, Outbox& out);
  void on_checked(Instant now, const work::StoreResult& result, Outbox& out);
  void refuse_small_waiters(Outbox& out);
  void succeed(Outbox& out);
  void fail_all(const Error& error, work::Leftover leftover, Outbox& out);
  void end(work::Leftover leftover, Outbox& out);
  void store(work::StoreOp op, StoreJob job, Outbox& out);
  [[nodiscard]] Error exhausted(std::string_view what) const;

  // pieces.cpp
  void lay_out(const std::vector<work::ByteRange>& there);
  void on_written(Instant now, const StoreJob& job, const work::StoreResult& result, Outbox& out);
  void give_back(std::uint32_t piece);
  void on_mismatch(Outbox& out);
  void choose_auditor();
  void audit(std::size_t peer);
  void accuse_suspects(Outbox& out);

  [[nodiscard]] bool is_whole() const { return missing_.empty() && open_pieces_ == 0; }

  [[nodiscard]] wire::BlobRequest request_of(std::uint32_t piece) const;

  // peers.cpp
  void ask_sizes(Instant now, Outbox& out);
  void call(Instant now, std::size_t peer, std::optional<std::uint32_t> piece,
            const wire::BlobRequest& request, Outbox& out);
  void call_http(PeerCallId id, Call& call, Outbox& out);
  void refuse(const Call& call, std::string why, Outbox& out);
  void take_reply(Instant now, const Call& call, const wire::BlobReply& reply, Outbox& out);
  void on_size(Instant now, std::size_t index, std::uint64_t size_bytes, Outbox& out);
  void on_bytes(Instant now, const Call& call, const wire::BlobReply& reply, Outbox& out);
  void on_failure(Instant now, const Call& call, std::string why, Outbox& out);
  void pause(Instant now, Peer& peer);
  void drop(std::size_t index, std::string why, Outbox& out);
  void accuse(std::size_t index, Outbox& out);
  [[nodiscard]] bool has_usable_peer() const;
  [[nodiscard]] std::optional<std::size_t> peer_for_piece(Instant now) const;
  bool revive_aside();

  Shared& shared_;
  const BlobHash hash_;
  Phase phase_ = Phase::waiting;
  std::vector<Waiter> waiters_;
  std::vector<Peer> peers_;
  std::map<PeerCallId, Call> calls_;
  std::map<JobId, StoreJob> jobs_;
  std::uint64_t size_bytes_ = 0;  ///< 0: not known
  std::vector<Piece> pieces_;
  std::set<std::uint32_t> missing_;  ///< neither there, asked for nor being written
  std::size_t open_pieces_ = 0;      ///< asked for or being written
  std::optional<Error> no_room_;     ///< what the store said to the size before this one
  bool is_auditing_ = false;
  std::optional<std::size_t> auditor_;
  std::size_t last_peer_ = 0;  ///< asked last; the next goes first among equals
  Instant progress_at_{};
  Instant store_paused_until_{};
  Instant seen_{};           ///< the time of the last event
  bool is_starved_ = false;  ///< the rate alone held the last piece back
};

}  // namespace tenzro::fetch
