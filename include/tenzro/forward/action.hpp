#pragma once
/// \file
/// What a forward or an execution asks of its node: values, no callbacks.
///
/// Jobs answer with on_job_done, calls with on_call_result; a cancelled call has no answer.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/routing/routed.hpp"
#include "tenzro/work/job.hpp"
#include "tenzro/work/peer.hpp"

namespace tenzro::forward {

using work::CancelCall;
using work::Run;
using work::SendCall;
using work::SendHttpCall;

/// Have these experts of the request's layer in memory; each answers as ready or unavailable.
struct Acquire {
  std::vector<ExpertIndex> experts;
};

/// The expert's batch is over; it need not stay.
struct Release {
  ExpertIndex expert = 0;
};

/// This host computed that many (token, expert) pairs.
struct Metered {
  std::uint64_t pairs = 0;
};

struct Missing {
  ExpertIndex expert = 0;
  std::vector<std::uint32_t> tokens;
};

/// What a forward did so far, whether or not it comes to an end.
struct Tally {
  std::uint32_t batches = 0;  ///< planned, replans included
  // Batches whose outputs were used, by how they came.
  std::uint32_t local = 0;
  std::uint32_t iroh = 0;  ///< tenzro/exec/1 and tenzro/moe
  std::uint32_t http = 0;
  std::uint32_t hedges = 0;     ///< calls to a second holder while the first is late
  std::uint32_t failovers = 0;  ///< batches that lost their holder
  std::uint32_t replans = 0;    ///< rounds, 0..replans_max
  std::uint32_t busy = 0;       ///< calls that met a busy holder
  std::uint32_t failures = 0;   ///< calls that failed
};

struct ForwardOutcome {
  routing::Routed routed;
  BufferRef outputs;
  Tally tally;
  std::vector<Missing> missing;
  bool is_q8_carrier = false;
};

/// The request is over, for better or worse: exactly one a forward, and nothing after it.
struct ForwardFinished {
  Result<ForwardOutcome> outcome;
};

struct ExecutionOutcome {
  BufferRef outputs;
  std::string receipt_json;
  std::optional<std::string> receipt2_json;
};

struct ExecutionFinished {
  Result<ExecutionOutcome> outcome;
};

/// A peer's request is over: exactly one a Serving, and nothing after it.
struct ServingFinished {
  std::vector<BufferRef> reply;
  /// False where the reply is a refusal.
  bool is_served = false;
};

using Action = std::variant<Run, Acquire, Release, Metered, SendCall, SendHttpCall, CancelCall,
                            ForwardFinished, ExecutionFinished, ServingFinished>;
using Outbox = std::vector<Action>;

}  // namespace tenzro::forward
