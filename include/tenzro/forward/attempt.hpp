#pragma once
/// \file
/// Attempts: the calls of one forward that are on their way to holders.
///
/// encode -> send -> reply -> verify, each step answered by an event with the id it was asked with.
/// Rules
///  - An attempt that is over is forgotten with its ids, so whatever comes late or twice for it
///  finds nothing.
///  - An attempt ends with exactly one Verdict, unless it was cancelled: then none, and the call is
///  cancelled on the wire.
///  - Silence past its deadline is a loss. The deadline is that of the attempt or of the forward,
///  whichever is first.
///  - Silence far beyond what is usual for the holder (ledger: patience) ends it too, where
///  somebody else can be asked; that is no failure.
///  - Every attempt is told to the standings, from its begin to its end.
/// Bound: the parts of a forward, twice (hedges). Thread: the owner's only. Pure.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "tenzro/forward/action.hpp"
#include "tenzro/forward/mesh.hpp"
#include "tenzro/forward/part.hpp"

namespace tenzro::forward {

enum class AttemptId : std::uint64_t {};

/// Why an attempt brought nothing.
struct Setback {
  enum class Kind : std::uint8_t { busy, failed, ours };
  Kind kind = Kind::failed;
  Error error;
};

struct Verdict {
  ProviderAddress provider{};
  work::Transport transport = work::Transport::exec;
  std::vector<PartIndex> parts;
  std::variant<work::VerifiedReply, Setback> outcome;
};

struct Attempt {
  AttemptId id{};
  std::shared_ptr<const work::RemoteCall> call;
  BufferRef carrier;  ///< the rows as they were sent
  work::PeerTarget target;
  std::string http_endpoint;
  std::vector<PartIndex> parts;
  ledger::OpenCall open;
  JobId job{};                          ///< that encodes or verifies
  std::optional<PeerCallId> peer_call;  ///< while a reply is awaited
  std::optional<Instant> arrived;       ///< when the reply came
  Instant deadline;
  std::optional<Instant> hedge_at;    ///< absent: not sent yet, or past
  std::optional<Instant> give_up_at;  ///< absent: not sent yet, or past
  std::int64_t patience_factor = 1;
  std::uint32_t rows = 0;
};

class Attempts {
 public:
  explicit Attempts(Mesh& mesh) : mesh_(mesh) {}

  struct Terms {
    std::vector<PartIndex> parts;
    Instant deadline;
    /// How many times the usual patience it gets.
    std::int64_t patience_factor = 1;
  };

  /// Begins a call. `provider` is who shall answer, as the view has it.
  void begin(Instant now, const shards::Provider& provider, work::RemoteCall call, Terms terms,
             Outbox& out);
  /// The verdict, where the result ends an attempt.
  [[nodiscard]] std::optional<Verdict> on_job_done(Instant now, JobId id,
                                                   const work::JobResult& result, Outbox& out);
  [[nodiscard]] std::optional<Verdict> on_call_result(Instant now, PeerCallId id,
                                                      const work::CallResult& result, Outbox& out);
  /// Attempts whose time is over.
  [[nodiscard]] std::vector<Verdict> on_tick(Instant now, Outbox& out);
  /// Parts of attempts that became late, a list an attempt.
  [[nodiscard]] std::vector<std::vector<PartIndex>> take_late(Instant now);
  /// Ends the attempts that are older than this node's patience with their holder and of whose
  /// parts `is_replaceable` says that another holder can be asked.
  [[nodiscard]] std::vector<Verdict> give_up(Instant now,
                                             const std::function<bool(PartIndex)>& is_replaceable,
                                             Outbox& out);
  /// Cancels every attempt of which no part is wanted.
  void cancel_unwanted(Instant now, const std::vector<Part>& parts, Outbox& out);
  void cancel_all(Instant now, Outbox& out);

  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] bool owns(JobId id) const { return by_job_.contains(id); }

  [[nodiscard]] bool empty() const { return attempts_.empty(); }

 private:
  using Map = std::map<AttemptId, Attempt>;  // ordered: iteration reaches the outbox

  void send(Instant now, Attempt& attempt, const work::EncodedCall& encoded, Outbox& out);
  [[nodiscard]] Verdict end(Map::iterator it, std::variant<work::VerifiedReply, Setback> outcome);
  [[nodiscard]] Verdict fail_call(Instant now, Map::iterator it, const Error& error);
  [[nodiscard]] Verdict fail_reply(Instant now, Map::iterator it, const Error& error);
  void cancel(Instant now, Map::iterator it, Outbox& out);

  Mesh& mesh_;
  std::uint64_t last_ = 0;
  Map attempts_;
  std::map<JobId, AttemptId> by_job_;
  std::map<PeerCallId, AttemptId> by_call_;
};

}  // namespace tenzro::forward
