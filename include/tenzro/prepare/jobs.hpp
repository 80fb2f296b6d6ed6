#pragma once
/// \file
/// Prepare jobs: slice a layer's experts and gate out of a checkpoint, quantise them, publish the
/// blobs.
///
/// A job reads config.json, the index (or the single file's header) and then, expert by expert,
/// exactly the bytes it needs: header ranges and tensor ranges, never whole files. Each expert
/// becomes one BuildExpertBlob job and one published blob. Rules
///  - Topology (experts, widths, top-k, scales, layout) comes from config.json and tensor shapes;
///  the model need not be in the
///    catalogue. Where it is, a mismatch ends the job naming both values.
///  - The id space is the routed experts, then the fused shared expert as the last index, where the
///  family has one.
///  - At most `experts_in_flight` experts are being read or built at once, whatever the model's
///  size: bounded memory.
///  - A failed job names tensor and file, and keeps what it published. A cancelled one too.
///  - At most `jobs_max` jobs run; beyond them start answers `busy`. Finished jobs are remembered,
///  the oldest forgotten
///    beyond `history_max`.
///  - Start answers once the checkpoint's shape is known, so that its refusals (unknown layer,
///  expert out of range) are the
///    call's own error, not a failed job.
/// Thread: the owner's only. Pure: files are read by the store.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/catalog/catalog.hpp"
#include "tenzro/rpc/answer.hpp"
#include "tenzro/rpc/call.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::prepare {

struct Options {
  std::size_t jobs_max = 4;
  std::size_t history_max = 1000;
  std::size_t experts_in_flight = 2;
};

using work::Run;

using work::Store;

/// The answer of tenzro_moePrepareExperts.
struct Started {
  RequestId waiter{};
  Result<rpc::PrepareStartedAnswer> answer;
};

using Action = std::variant<Run, Store, Started>;
using Outbox = std::vector<Action>;

class Job;

class Jobs {
 public:
  Jobs(const Options& options, work::JobIds& ids, const catalog::Catalog& catalog);
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  /// Answers through Started, now or later. Job ids are UUIDs (version 4) drawn from `prng`.
  void start(RequestId waiter, rpc::PrepareExpertsCall call, Prng& prng, Outbox& out);
  /// Error: invalid_params `unknown prepare job: X`.
  [[nodiscard]] Result<rpc::PrepareStatusAnswer> status(const std::string& job_id) const;
  /// Newest last.
  [[nodiscard]] std::vector<rpc::PrepareStatusAnswer> list() const;
  /// False where the job was over already. Error: as status.
  [[nodiscard]] Result<bool> cancel(const std::string& job_id);

  void on_job_done(JobId id, const work::JobResult& result, Outbox& out);
  void on_store_done(JobId id, const work::StoreResult& result, Outbox& out);

 private:
  void claim(Job* job, const Outbox& out, std::size_t from);
  void forget_old();
  [[nodiscard]] Job* find(const std::string& job_id) const;

  Options options_;
  work::JobIds& ids_;
  const catalog::Catalog& catalog_;
  std::vector<std::unique_ptr<Job>> jobs_;  ///< in order of start
  std::map<JobId, Job*> owners_;
};

}  // namespace tenzro::prepare
