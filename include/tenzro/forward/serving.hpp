#pragma once
/// \file
/// One request of tenzro/exec/1 from a peer, from its bytes to those of the reply: a state machine.
///
/// decode -> acquire -> run -> sign. Rules
///  - That the peer may execute, and that there is room for it, was decided before.
///  - Experts that are in memory together run as one job; those on disk run as they land. Rows are
///    shared by all of them.
///  - Everything is an answer: what cannot be served is told in a reply (`failed` with a sentence,
///  or
///    `busy`), never by ending the stream. One expert that cannot be had fails the request: its
///    caller has other holders for it.
///  - A profile that this node does not run is refused, never exchanged for another; so is a blob
///    that is not the one held.
///  - The deadline is that of the request, at most `budget_max` after its arrival.
///  - Exactly one ServingFinished; after it, and for anything late or twice, events are ignored.
/// Requests of several peers for one expert are not gathered into one batch.
/// Memory: the message, its rows as f32, one output row a (expert, row). Thread: the owner's only.
/// Pure.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/base/time.hpp"
#include "tenzro/forward/action.hpp"

namespace tenzro::forward {

struct ServeRequest {
  BufferRef message;
  EndpointId router{};
  /// What this node runs.
  std::vector<compute::Profile> profiles;
  Instant arrived;
  Duration budget_max{0};
};

class Serving {
 public:
  Serving(ServeRequest request, work::JobIds& ids);

  void start(Outbox& out);
  void on_decoded(const work::DecodedExec& decoded, Outbox& out);
  void on_expert_ready(ExpertIndex expert, std::shared_ptr<const compute::ResidentExpert> resident,
                       work::ExpertIdentity identity, Outbox& out);
  void on_expert_unavailable(const Error& error, Outbox& out);
  /// Runs what has become ready since the last call.
  void advance(Outbox& out);
  void on_experts_done(const work::ExpertsResult& result, Outbox& out);
  void on_signed(const work::SignedExec& result, Outbox& out);
  /// A job of this request failed, or the node cannot serve it after all: it ends with that error.
  void on_failed(const Error& error, Outbox& out);
  void on_tick(Instant now, Outbox& out);

  [[nodiscard]] std::optional<Instant> next_deadline() const;

  /// Once decoded.
  [[nodiscard]] const LayerKey& layer() const { return asked_->layer; }

 private:
  enum class Phase : std::uint8_t { decoding, running, signing, finished };

  /// One expert of the request.
  struct Part {
    std::shared_ptr<const compute::ResidentExpert> resident;
    work::ExpertIdentity identity;
    bool has_started = false;
    BufferRef outputs;
  };

  [[nodiscard]] std::optional<std::size_t> find(ExpertIndex expert) const;
  [[nodiscard]] std::optional<Error> fault(std::size_t at) const;
  void sign(Outbox& out);
  void finish(std::vector<BufferRef> reply, bool is_served, Outbox& out);

  ServeRequest request_;
  work::JobIds& ids_;
  Phase phase_ = Phase::decoding;
  Instant deadline_;
  std::shared_ptr<const wire::ExecRequest> asked_;
  BufferRef input_;
  std::vector<Part> parts_;  ///< in the order of the request
  std::size_t done_ = 0;
};

/// The reply that tells an error to the peer.
[[nodiscard]] std::vector<BufferRef> exec_refusal(const Error& error);

}  // namespace tenzro::forward
