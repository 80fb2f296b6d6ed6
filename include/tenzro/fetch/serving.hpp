#pragma once
/// \file
/// Serving: answers peers that ask for ranges of blobs (`tenzro/blob/1`).
///
/// Rules
///  - One request, one answer: a range read from the store, or why not. Bytes that are no request
///  end the stream.
///  - Beyond `reads_max` reads at once, `peer_reads_max` of one peer, or `send_bytes_per_s`, the
///  answer is `busy`. Why: whoever rebuilds its store must not cost the mesh its throughput, and
///  the asker does better to go elsewhere than to wait here.
///  - A blob that went meanwhile is `not_found`; nothing is kept for a peer between its requests.
/// Thread: the owner's only. Pure.
#include <cstdint>
#include <map>
#include <variant>
#include <vector>

#include "tenzro/base/time.hpp"
#include "tenzro/fetch/token_bucket.hpp"
#include "tenzro/wire/blob_message.hpp"
#include "tenzro/wire/protocol.hpp"
#include "tenzro/work/job.hpp"
#include "tenzro/work/peer.hpp"

namespace tenzro::fetch {

struct ServingOptions {
  /// Each holds up to kBlobRangeBytesMax bytes while it is read.
  std::size_t reads_max = 16;
  std::size_t peer_reads_max = 8;
  /// 0: no limit.
  std::uint64_t send_bytes_per_s = 0;
};

struct ServingTotals {
  std::uint64_t requests = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t busy = 0;
  std::uint64_t not_found = 0;
  std::uint64_t refused = 0;  ///< no request, or of nobody we serve
};

using ServingAction = std::variant<work::Store, work::SendReply, work::RefuseRequest>;
using ServingOutbox = std::vector<ServingAction>;

/// `later`: a request that is one is answered `busy`.
enum class Admission : std::uint8_t { refused, later, admitted };

class Serving {
 public:
  /// `ids` must outlive this.
  Serving(const ServingOptions& options, work::JobIds& ids)
      : options_(options), ids_(ids), bucket_(options.send_bytes_per_s, wire::kBlobRangeBytesMax) {}

  void on_request(Instant now, const work::PeerRequest& request, Admission admission,
                  ServingOutbox& out);
  /// The peer no longer waits.
  void on_cancelled(PeerRequestId request);
  /// Ignores what it did not ask for.
  void on_store_done(JobId id, const work::StoreResult& result, ServingOutbox& out);

  [[nodiscard]] const ServingTotals& totals() const { return totals_; }

 private:
  struct Read {
    PeerRequestId request{};
    EndpointId peer{};
    bool is_wanted = true;
  };

  void answer(PeerRequestId request, wire::BlobStatus status, ServingOutbox& out);
  [[nodiscard]] std::size_t reads_of(const EndpointId& peer) const;

  ServingOptions options_;
  work::JobIds& ids_;
  TokenBucket bucket_;
  std::map<JobId, Read> reads_;
  ServingTotals totals_;
};

}  // namespace tenzro::fetch
