#pragma once
/// \file
/// Prepare jobs: slice the experts and gates of layers out of a checkpoint, quantise them, publish
/// the blobs.
///
/// A job reads config.json, the index (or the single file's header) and then, layer by layer and
/// expert by expert, exactly the bytes it needs: header ranges and tensor ranges, never whole
/// files, from a folder or from a web server. Each expert becomes one BuildExpertBlob job and one
/// published blob. Rules
///  - Topology (experts, widths, top-k, scales, layout) comes from config.json and tensor shapes;
///  the model need not be in the catalogue. Where it is, a mismatch ends the job naming both
///  values.
///  - The id space is the routed experts, then the fused shared expert as the last index, where the
///  family has one.
///  - At most `experts_in_flight` experts are being read or built at once, whatever the model's
///  size: bounded memory.
///  - Nothing is published before budget and disk have room for all that is still to be made.
///  - A failed job names tensor and file, and keeps what it published. A cancelled one too. Either
///  goes on from there when it is resumed; one that the end of the process interrupted is resumed
///  at the start, by itself. A file that was changed meanwhile is an error, not a mix of two.
///  - At most `jobs_max` jobs run; beyond them start answers `busy`. Finished jobs are remembered,
///  in the store's log too; the oldest are forgotten beyond `history_max` jobs or
///  `history_parts_max` blobs of theirs.
///  - Start answers once the checkpoint's shape is known, so that its refusals (unknown layer,
///  expert out of range) are the call's own error, not a failed job. Where the source wants to be
///  left alone first, or five seconds have passed, it answers with the id of a job that waits,
///  and what would have been refused is a failed job. Until it is answered a job that is cancelled
///  is a start that is refused.
///  - Where a job loads what it publishes, an expert counts as done when it is loaded.
/// Thread: the owner's only. Pure: files are read by the store and the shell.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/catalog/catalog.hpp"
#include "tenzro/rpc/answer.hpp"
#include "tenzro/rpc/call.hpp"
#include "tenzro/work/download.hpp"
#include "tenzro/work/job.hpp"
#include "tenzro/work/peer.hpp"

namespace tenzro::prepare {

/// How files are fetched from web servers (src/prepare/source_reader.hpp has the rules).
struct SourceOptions {
  /// Where repositories of the catalogue are: `<hub_url>/<owner>/<name>/resolve/main`. Empty: no
  /// hub. Its origin alone gets the hub's token.
  std::string hub_url;
  /// Whether http is allowed beyond this machine.
  bool plain_http = false;
  std::size_t ranges_max = 4;  ///< of one job, at once
  std::uint64_t range_bytes = 8ULL << 20U;
  std::uint64_t read_bytes_max = 4ULL << 30U;  ///< one tensor's, at once
  std::size_t failures_max = 6;                ///< of one range, without a byte gained
  std::size_t redirects_max = 5;
  Duration pause_min = std::chrono::milliseconds(500);
  Duration pause_max = std::chrono::seconds(30);
  /// The longest that a server is left alone at its word.
  Duration wait_max = std::chrono::hours(1);
  /// A server that only refuses is asked again for so long.
  Duration patience = std::chrono::hours(2);
};

struct Options {
  std::size_t jobs_max = 4;
  std::size_t history_max = 1000;
  std::size_t history_parts_max = 200'000;
  std::size_t experts_in_flight = 2;
  SourceOptions source;
};

using work::Run;

using work::Store;

/// The answer of tenzro_moePrepareExperts.
struct Started {
  RequestId waiter{};
  Result<rpc::PrepareStartedAnswer> answer;
};

/// Load this expert or gate, which is published; answer with Jobs::on_loaded. Without a blob: tell
/// whether it is loaded, with an error where it is not.
struct LoadPrepared {
  JobId id{};
  LayerKey layer;
  std::optional<ExpertIndex> expert;
  std::string uri;
  BufferRef blob;
};

using Action = std::variant<Run, Store, Started, LoadPrepared, work::Download, work::CancelCall>;
using Outbox = std::vector<Action>;

class Job;

class Jobs {
 public:
  /// All outlive this.
  Jobs(const Options& options, work::JobIds& ids, work::CallIds& calls,
       const catalog::Catalog& catalog, Prng& prng);
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  /// Once, before anything else: the jobs of earlier lives. Those that were running go on.
  void on_history(Instant now, const std::vector<work::LoggedJob>& jobs, Outbox& out);

  /// Answers through Started, now or later. Job ids are UUIDs (version 4).
  void start(Instant now, RequestId waiter, rpc::PrepareExpertsCall call, Outbox& out);
  /// Answers through Started.
  void resume(Instant now, RequestId waiter, const std::string& job_id, Outbox& out);
  /// Error: invalid_params `unknown prepare job: X`.
  /// `is_summary`: without the blobs.
  [[nodiscard]] Result<rpc::PrepareStatusAnswer> status(Instant now, const std::string& job_id,
                                                        bool is_summary = false) const;
  /// Newest last, without the blobs.
  [[nodiscard]] std::vector<rpc::PrepareStatusAnswer> list(Instant now) const;
  /// False where the job was over already. Error: as status.
  [[nodiscard]] Result<bool> cancel(Instant now, const std::string& job_id, Outbox& out);

  void on_job_done(Instant now, JobId id, const work::JobResult& result, Outbox& out);
  void on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out);
  /// False where the download is none of these jobs'.
  bool on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded, Outbox& out);
  void on_loaded(Instant now, JobId id, const Status& status, Outbox& out);
  void on_tick(Instant now, Outbox& out);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

 private:
  void claim(Job* job, const Outbox& out, std::size_t from);
  void forget(Job* job, Outbox& out);
  void forget_old(Outbox& out);
  [[nodiscard]] bool is_full() const;
  [[nodiscard]] Error full() const;
  [[nodiscard]] Job* find(const std::string& job_id) const;
  [[nodiscard]] std::unique_ptr<Job> make_job(std::string id, rpc::PrepareExpertsCall call) const;

  Options options_;
  work::JobIds& ids_;
  work::CallIds& calls_;
  const catalog::Catalog& catalog_;
  Prng& prng_;
  std::vector<std::unique_ptr<Job>> jobs_;  ///< in order of start
  std::map<JobId, Job*> owners_;
  std::map<PeerCallId, Job*> callers_;
};

}  // namespace tenzro::prepare
