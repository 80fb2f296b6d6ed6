#pragma once
/// \file
/// One batch through one expert that this node holds, and the receipt for it: a state machine of
/// three steps.
///
/// acquire -> run -> sign. Exactly one ExecutionFinished; late or repeated events are ignored; the
/// deadline is absolute. Thread: the owner's only. Pure.
#include <optional>
#include <vector>

#include "tenzro/base/time.hpp"
#include "tenzro/forward/action.hpp"

namespace tenzro::forward {

struct ExecuteRequest {
  ExpertKey key;
  std::uint32_t d_model = 0;
  std::vector<std::uint32_t> token_indices;
  bool is_q8 = false;
  BufferRef carrier;  ///< as received; the receipt hashes it
  BufferRef hidden;   ///< [tokens, d_model] f32
  compute::Profile profile = compute::Profile::exact;
  Instant deadline;
  /// Where present the outcome has a receipt of version 2 as well.
  std::optional<work::ReceiptTerms> terms = std::nullopt;
};

class Execution {
 public:
  Execution(ExecuteRequest request, work::JobIds& ids);

  void start(Outbox& out);
  void on_expert_ready(std::shared_ptr<const compute::ResidentExpert> resident,
                       const work::ExpertIdentity& identity, Outbox& out);
  void on_expert_unavailable(const Error& error, Outbox& out);
  /// A job of this execution failed: it ends with that error.
  void on_failed(const Error& error, Outbox& out);
  void on_experts_done(const work::ExpertsResult& result, Outbox& out);
  void on_signed(const work::SignedReceipt& result, Outbox& out);
  void on_tick(Instant now, Outbox& out);

  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] const ExecuteRequest& request() const { return request_; }

 private:
  enum class Phase : std::uint8_t { acquiring, running, signing, finished };

  void finish(Result<ExecutionOutcome> outcome, Outbox& out);

  ExecuteRequest request_;
  work::JobIds& ids_;
  Phase phase_ = Phase::acquiring;
  work::ExpertIdentity identity_;
  BufferRef outputs_;
};

}  // namespace tenzro::forward
