#pragma once
/// \file
/// Fetches: blobs on their way from other nodes into the store.
///
/// A fetch asks every source for the blob's size, opens a partial in the store, and keeps a few
/// ranges in flight from all sources that have it, in turn, until every piece is written and the
/// whole hashes to its name. Rules
///  - Waiters for one blob share one fetch, and its sources.
///  - Pieces that an earlier attempt left on disk are not fetched again.
///  - The first size told counts; a source that tells another is set aside and comes back only when
///  the others are gone. Why: the first may have been the liar.
///  - A source that has an HTTP server and no address of its own is asked there, for ranges of
///  `/blob/<hash>`. What it tells and gives counts like any other's.
///  - A source without either is asked again until the fetch stalls. Why: whoever carries the
///  call may come to know them, as records travel.
///  - A source that answers `busy` is left alone for a while. One that fails is too, and after
///  `failures_max` in a row it is dropped. One that breaks the protocol, or lost the blob, is
///  dropped at once.
///  - Where the whole hashes to something else, one source must give all of it: what others gave is
///  fetched again from that one and written over. Is the hash right then, whoever gave another
///  piece there has lied, and is named; is it wrong again, that source itself has. So a liar is
///  named by proof, never by majority. Pieces from disk accuse nobody.
///  - The store refuses a blob it has no room for before the first byte; a disk that fills up
///  meanwhile ends the fetch, and what is there of it is removed. After any other end it is kept.
///  - Nothing has come for `stall_timeout`: the fetch fails, saying what each source answered.
///  - Requests are paced so that no more than `receive_bytes_per_s` is asked for.
/// A finished blob has a lease in the store: whoever takes Finished releases it.
/// Bounds: see Options; fetches beyond `fetches_max` wait, beyond `waiting_max` they are `busy`.
/// Thread: the owner's only. Pure.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/fetch/token_bucket.hpp"
#include "tenzro/work/download.hpp"
#include "tenzro/work/job.hpp"
#include "tenzro/work/peer.hpp"

namespace tenzro::fetch {

struct Source {
  EndpointId id{};
  /// "host:port", best first.
  std::vector<std::string> addresses;
  /// "http://host:port" of its HTTP server: where it has no address, it is asked there.
  std::string http_endpoint = {};
};

struct Options {
  std::size_t fetches_max = 8;
  std::size_t waiting_max = 64;
  std::size_t waiters_max = 256;  ///< of one fetch
  std::size_t sources_max = 8;    ///< of one fetch; further ones are not asked
  /// Larger pieces cost fewer calls, smaller ones less when a source is lost. <=
  /// wire::kBlobRangeBytesMax.
  std::uint32_t piece_bytes = 2U << 20U;
  std::size_t pieces_in_flight_max = 16;  ///< asked for or being written, of all fetches
  std::size_t fetch_pieces_max = 8;       ///< of one fetch
  std::size_t source_pieces_max = 4;      ///< asked of one source by one fetch
  std::uint64_t blob_bytes_max = std::uint64_t{16} << 30U;
  Duration call_timeout = std::chrono::seconds(8);
  Duration stall_timeout = std::chrono::seconds(25);
  std::size_t failures_max = 3;
  /// A source that refuses to tell the size is asked so often, over some three seconds. Why: it may
  /// not have this node's record yet.
  std::size_t refusals_max = 6;
  /// The pause after a failure or `busy`; doubles up to `pause_max`.
  Duration pause_min = std::chrono::milliseconds(100);
  Duration pause_max = std::chrono::seconds(2);
  /// 0: no limit.
  std::uint64_t receive_bytes_per_s = 0;
};

/// These waiters need not wait any more. Where `size_bytes` is a value the blob is in the store,
/// under one lease that whoever takes this must release, also where `waiters` is empty.
struct Finished {
  BlobHash hash{};
  std::vector<RequestId> waiters;
  Result<std::uint64_t> size_bytes;
};

/// Proven: this source gave bytes that are not the blob's.
struct SourceLied {
  EndpointId source{};
  BlobHash hash{};
};

using Action = std::variant<work::Store, work::SendCall, work::CancelCall, Finished, SourceLied,
                            work::Download>;
using Outbox = std::vector<Action>;

struct Totals {
  std::uint64_t fetches = 0;
  std::uint64_t fetches_failed = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_resumed = 0;
  std::uint64_t mismatches = 0;
  std::uint64_t liars = 0;
  std::uint64_t sources_dropped = 0;
};

class Transfer;
struct Shared;

class Fetches {
 public:
  /// Both id sources must outlive this.
  Fetches(const Options& options, work::CallIds& calls, work::JobIds& jobs);
  ~Fetches();
  Fetches(const Fetches&) = delete;
  Fetches& operator=(const Fetches&) = delete;

  /// A blob larger than `bytes_max` (0: no bound of the waiter's) is refused for this waiter.
  /// Error, and then no Finished: not_found where there is no source; busy.
  [[nodiscard]] Status start(Instant now, RequestId waiter, const BlobHash& hash,
                             const std::vector<Source>& sources, std::uint64_t bytes_max,
                             Outbox& out);
  /// The waiter is gone: no Finished names it. A fetch that nobody waits for any more stops.
  void on_cancel(Instant now, RequestId waiter, Outbox& out);
  /// False, and nothing done, where the call is none of this one's.
  bool on_peer_reply(Instant now, PeerCallId call, const work::CallResult& result, Outbox& out);
  /// As on_peer_reply, of a source that was asked over HTTP.
  bool on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded, Outbox& out);
  /// Ignores what it did not ask for.
  void on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out);
  void on_tick(Instant now, Outbox& out);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] std::size_t in_progress() const { return transfers_.size(); }

  [[nodiscard]] const Totals& totals() const;

 private:
  void advance(Instant now, Outbox& out);
  void sweep();

  std::unique_ptr<Shared> shared_;
  std::map<BlobHash, std::unique_ptr<Transfer>>
      transfers_;                 // ordered: iteration reaches the outbox
  std::deque<BlobHash> waiting_;  ///< those not begun
  BlobHash last_served_{};        ///< whose turn it was to ask last
};

}  // namespace tenzro::fetch
