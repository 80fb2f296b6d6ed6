#pragma once
/// \file
/// One layer forward as a state machine: gate, plan, run here and at other holders, combine.
///
/// Rules
///  - Phases: the gate job runs; its slots are planned over the shard view; local experts are
///  acquired and run as they become ready while the calls to holders are on their way, one a holder
///  and input, split where a message is full; when every part has answered, one combine job sums
///  the outputs in (token, slot) order, so the bits do not depend on who came first.
///  - Carrier: q8 rounds the rows that feed every expert to Q8_0 and back, so that a mesh and a
///  single node agree. `automatic` chooses it where every expert's primary declares quantised
///  weights and the rows allow it (receipts::can_be_q8); else dense. It is chosen once.
///  - A failed call: its parts go to their next standby; where none is left they are planned again
///  without every provider that failed in this forward, at most `replans_max` times a part. A local
///  failure excludes this node. What was answered stays.
///  - A holder without QUIC addresses is called over HTTP. One that QUIC lost, and that has an HTTP
///  endpoint, is asked over it once where nobody else is left for a part. Why last: a holder that
///  is gone answers on neither, and another one is at hand at once.
///  - A holder that is busy did not fail: the next standby is asked; where all are busy the parts
///  wait, longer each time, and are planned again.
///  - A call that is late (ledger: hedge_delay) is sent to the next standby too, where the budget
///  allows; the first answer counts, the loser is cancelled. One that is far beyond its time
///  (ledger: patience) is given up for the next standby, or planned again, where the part has
///  another holder.
///  - Fail closed: a part that nobody can answer ends the forward with the last holder's error.
///  With `allow_partial` the tokens' other routed slots are scaled instead (see work/bodies.hpp)
///  and the gap is listed; a missing shared expert still fails.
///  - Exactly one ForwardFinished, or none after cancel(). With it every call is cancelled. After
///  it, and for anything late or twice, events are ignored.
///  - The deadline is absolute; on_tick past it ends the forward.
/// Memory: the inputs, one output row a (token, expert), the sum. Thread: the owner's only. Pure.
#include <optional>
#include <set>
#include <string>

#include "tenzro/base/time.hpp"
#include "tenzro/forward/action.hpp"
#include "tenzro/forward/attempt.hpp"
#include "tenzro/forward/mesh.hpp"
#include "tenzro/forward/part.hpp"
#include "tenzro/forward/request.hpp"
#include "tenzro/planner/plan.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::forward {

class Flight {
 public:
  Flight(Request request, std::shared_ptr<const work::Gate> gate, Mesh& mesh);

  void start(Instant now, Outbox& out);
  void on_job_done(Instant now, JobId id, const work::JobResult& result, Outbox& out);
  void on_call_result(Instant now, PeerCallId id, const work::CallResult& result, Outbox& out);
  /// Ends the forward where the expert's width is not the one its layer gives it.
  void on_expert_ready(Instant now, ExpertIndex expert,
                       std::shared_ptr<const compute::ResidentExpert> resident,
                       const work::ExpertFacts& facts, Outbox& out);
  void on_expert_unavailable(Instant now, ExpertIndex expert, const Error& error, Outbox& out);
  /// Runs what became ready since the last call, as one job, what runs from disk each as its own,
  /// and combines once all has answered.
  void advance(Outbox& out);
  void on_tick(Instant now, Outbox& out);
  /// Nobody waits any more: calls are cancelled, nothing follows.
  void cancel(Instant now, Outbox& out);

  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] bool is_finished() const { return phase_ == Phase::finished; }

  [[nodiscard]] const Request& request() const { return request_; }

  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  enum class Phase : std::uint8_t { gating, running, combining, finished };

  struct Ready {
    ExpertIndex expert = 0;
    std::shared_ptr<const compute::ResidentExpert> resident;
  };

  [[nodiscard]] bool is_shared(ExpertIndex expert) const {
    return expert >= gate_->router.num_experts();
  }

  [[nodiscard]] std::uint32_t width_of(ExpertIndex expert) const {
    return is_shared(expert) ? request_.d_model : gate_->expert_width;
  }

  /// In a latent layer the shared expert reads full-width rows, the others narrower ones.
  [[nodiscard]] bool reads_hidden(ExpertIndex expert) const {
    return gate_->latent_down != nullptr && is_shared(expert);
  }

  // flight.cpp
  void on_gated(Instant now, const work::GateResult& result, Outbox& out);
  void combine(Outbox& out);
  void on_combined(Instant now, const work::CombineResult& result, Outbox& out);
  void finish(Instant now, Result<ForwardOutcome> outcome, Outbox& out);
  [[nodiscard]] std::vector<Missing> gaps() const;

  // flight_plan.cpp
  void plan(Instant now, Outbox& out);
  [[nodiscard]] planner::Plan make_plan(Instant now,
                                        const std::vector<planner::TokenExperts>& wanted) const;
  [[nodiscard]] bool chooses_q8(const planner::Plan& plan) const;
  void place(Instant now, std::vector<PartIndex> wanted, Outbox& out);
  [[nodiscard]] std::vector<PartIndex> ask(Instant now, const std::vector<PartIndex>& wanted,
                                           Outbox& out);
  [[nodiscard]] std::vector<PartIndex> replan(Instant now, const std::vector<PartIndex>& exhausted,
                                              Outbox& out);
  [[nodiscard]] std::vector<PartIndex> plan_again(Instant now, const std::vector<PartIndex>& wanted,
                                                  Outbox& out);
  /// Whether somebody can be asked anew for the part. A copy: nobody is asked yet.
  [[nodiscard]] bool has_standby(Instant now, Part part) const;
  /// Neither excluded, gone nor stalled.
  [[nodiscard]] bool can_ask(Instant now, const ProviderAddress& provider) const;
  /// Moves to the part's next holder, stalled ones last; null where there is none.
  [[nodiscard]] const planner::Holder* next_holder(Instant now, Part& part) const;
  /// The part's holders that QUIC lost may be planned again, for HTTP.
  void readmit_over_http(const Part& part);
  void give_up(Instant now, Part& part, Outbox& out);

  // flight_remote.cpp
  void call(Instant now, const ProviderAddress& provider, const std::vector<PartIndex>& wanted,
            Outbox& out);
  [[nodiscard]] work::Transport transport_to(const shards::Provider& provider) const;
  [[nodiscard]] work::RemoteCall make_call(const shards::Provider& provider,
                                           const std::vector<PartIndex>& carried);
  void on_verdict(Instant now, Verdict verdict, Outbox& out);
  void accept(const Verdict& verdict, const work::VerifiedReply& reply);
  void note_setback(const Verdict& verdict, const Setback& setback);
  void hedge(Instant now, const std::vector<PartIndex>& late, Outbox& out);

  // flight_local.cpp
  void run_ready(Outbox& out);
  /// As one job: all of one input.
  void run(std::vector<Ready> ready, Outbox& out);
  void on_local_done(Instant now, const std::vector<PartIndex>& parts,
                     const work::JobResult& result, Outbox& out);
  [[nodiscard]] bool finish_part(PartIndex index, const BufferRef& values);

  Request request_;
  std::shared_ptr<const work::Gate> gate_;
  Mesh& mesh_;
  Attempts attempts_;
  Phase phase_ = Phase::gating;
  JobId own_job_{};  ///< gate or combine
  routing::Routed routed_;
  BufferRef expert_input_;
  std::vector<Part> parts_;
  std::size_t open_parts_ = 0;
  std::vector<Ready> ready_;
  std::map<JobId, std::vector<PartIndex>> local_jobs_;
  std::set<ProviderAddress> excluded_;   ///< failed in this forward
  std::set<ProviderAddress> quic_lost_;  ///< of these: not reached by QUIC, not yet tried over HTTP
  std::set<ProviderAddress> over_http_;  ///< called over HTTP from then on
  std::vector<work::ExpertOutput> outputs_;
  Tally tally_;
  bool can_be_q8_ = false;
  bool is_q8_ = false;
};

}  // namespace tenzro::forward
