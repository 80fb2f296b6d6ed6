#pragma once
/// \file
/// One layer forward as a state machine: gate, plan, run, combine.
///
/// Rules
///  - Phases: the gate job runs; its slots are planned over the shard view; the experts are
///  acquired and run as they
///    become ready (those in memory at once, those on disk as they land); when every planned expert
///    has answered, the combine job sums the outputs in (token, slot) order, so the bits do not
///    depend on who came first.
///  - Carrier: q8 rounds the rows that feed every expert to Q8_0 and back, so that a mesh and a
///  single node agree. `automatic`
///    chooses it where every expert in the plan is quantised, the width divides by 32 and no row's
///    greatest magnitude exceeds receipts::kQ8AmaxMax (the f16 scale would overflow); else dense.
///  - Fail closed: an expert without a holder, or whose holder fails, ends the forward. With
///  `allow_partial` the tokens'
///    other routed slots are scaled instead (see work/bodies.hpp) and the gap is listed; a missing
///    shared expert still fails.
///  - Exactly one ForwardFinished. After it, and for anything late or twice, events are ignored.
///  - The deadline is absolute; on_tick past it ends the forward.
/// Memory: the inputs, one output row a (token, expert), the sum. Thread: the owner's only. Pure.
#include <optional>
#include <set>
#include <string>

#include "tenzro/base/time.hpp"
#include "tenzro/forward/action.hpp"
#include "tenzro/planner/plan.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::forward {

enum class Carrier : std::uint8_t { automatic, dense, q8 };

struct Request {
  LayerKey layer;
  std::uint32_t tokens = 0;
  std::uint32_t d_model = 0;
  BufferRef hidden;
  BufferRef router_hidden;  ///< empty: the router reads `hidden`
  std::vector<std::int64_t> token_ids;
  std::uint32_t top_k = 0;
  std::optional<bool> allow_cold;
  bool allow_partial = false;
  Carrier carrier = Carrier::automatic;
  compute::Profile profile = compute::Profile::exact;
  double min_kept_mass = 0.5;
  Instant deadline;
};

/// What is known of an expert's weights, wherever it is held.
class Facts {
 public:
  virtual ~Facts() = default;
  /// Null where nothing is known.
  [[nodiscard]] virtual const work::ExpertFacts* find(const ExpertKey& key) const = 0;
};

class Flight {
 public:
  Flight(Request request, std::shared_ptr<const work::Gate> gate, work::JobIds& ids);

  void start(Outbox& out);
  /// A job of this forward failed: the forward ends with its error.
  void on_failed(const Error& error, Outbox& out);
  /// The gate's answer. `self` is this node's address, `facts` tells of every expert in the view.
  void on_gated(const work::GateResult& result, const shards::View& view,
                const ProviderAddress& self, const Facts& facts, Outbox& out);
  /// Ends the forward where the expert's width is not the one its layer gives it.
  void on_expert_ready(ExpertIndex expert, std::shared_ptr<const compute::ResidentExpert> resident,
                       const work::ExpertFacts& facts, Outbox& out);
  void on_expert_unavailable(ExpertIndex expert, const Error& error, Outbox& out);
  /// Runs what became ready since the last call, as one job, and combines once all has answered.
  void advance(Outbox& out);
  void on_experts_done(const work::ExpertsResult& result, Outbox& out);
  void on_combined(const work::CombineResult& result, Outbox& out);
  void on_tick(Instant now, Outbox& out);

  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] bool is_finished() const { return phase_ == Phase::finished; }

  [[nodiscard]] const Request& request() const { return request_; }

 private:
  enum class Phase : std::uint8_t { gating, running, combining, finished };

  struct Ready {
    ExpertIndex expert = 0;
    std::shared_ptr<const compute::ResidentExpert> resident;
  };

  void plan(const shards::View& view, const ProviderAddress& self, const Facts& facts, Outbox& out);
  [[nodiscard]] bool chooses_q8(const planner::Plan& plan, const Facts& facts) const;

  [[nodiscard]] bool is_shared(ExpertIndex expert) const {
    return expert >= gate_->router.num_experts();
  }

  void run(std::vector<Ready> ready, const BufferRef& input, std::uint32_t width, Outbox& out);
  void combine(Outbox& out);
  void finish(Result<ForwardOutcome> outcome, Outbox& out);

  Request request_;
  std::shared_ptr<const work::Gate> gate_;
  work::JobIds& ids_;
  Phase phase_ = Phase::gating;
  routing::Routed routed_;
  BufferRef expert_input_;
  std::map<ExpertIndex, std::vector<std::uint32_t>> tokens_;  ///< of every planned expert
  std::set<ExpertIndex> open_;                                ///< planned, not yet answered
  std::vector<Ready> ready_;
  std::vector<work::ExpertOutput> outputs_;
  std::vector<Missing> missing_;
  std::uint32_t batches_ = 0;
  std::uint32_t served_ = 0;  ///< batches whose outputs arrived
  bool can_be_q8_ = false;
  bool is_q8_ = false;
};

}  // namespace tenzro::forward
