#pragma once
/// \file
/// One prepare job: from config.json to published blobs, as a state machine.
///
/// Steps: config -> (answer) -> index -> headers, a file at a time -> gate and experts, a few at a
/// time. A GGUF file has all but its tensors in its header: header -> (answer) -> headers of
/// further parts -> gate and experts. Each step asks for one or more reads or computations;
/// `pending_` says what each outstanding one is for. After the end everything late is ignored.
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/prepare/jobs.hpp"

#include "checkpoint.hpp"
#include "layer_plan.hpp"

namespace tenzro::prepare {

class Job {
 public:
  Job(std::string id, RequestId waiter, rpc::PrepareExpertsCall call, const catalog::Model* model,
      const Options& options, work::JobIds& ids);

  void start(Outbox& out);
  void on_job_done(JobId id, const work::JobResult& result, Outbox& out);
  void on_store_done(JobId id, const work::StoreResult& result, Outbox& out);
  /// False where it was over already.
  bool cancel();

  [[nodiscard]] const std::string& id() const { return id_; }

  [[nodiscard]] bool is_running() const { return state_ == rpc::PrepareState::running; }

  /// False for a job whose start was refused: nobody was told its id.
  [[nodiscard]] bool is_known() const { return is_answered_ && !was_refused_; }

  [[nodiscard]] rpc::PrepareStatusAnswer status() const;

 private:
  enum class Purpose : std::uint8_t {
    config,
    index,
    index_scan,
    file_size,
    header_length,
    header,
    header_scan,
    gguf_prefix,
    gguf_scan,
    gate_part,
    gate_build,
    gate_publish,
    expert_part,
    expert_build,
    expert_publish,
  };

  struct Pending {
    Purpose purpose = Purpose::config;
    ExpertIndex expert = 0;
    std::size_t part = 0;
  };

  struct Located {
    std::string file;
    work::SourceTensor info;
  };

  /// What one blob is made of, as its bytes come in.
  template <typename Plan>
  struct Parts {
    Plan plan;
    std::size_t missing = 0;
    rpc::PreparedBlob blob;
  };

  void ask(Pending pending, work::StoreOp op, Outbox& out);
  void ask(Pending pending, work::Job job, Outbox& out);
  void on_read(const Pending& pending, const work::StoreResult& result, Outbox& out);
  void on_config(const work::StoreResult& result, Outbox& out);
  [[nodiscard]] Status accept(const Checkpoint& checkpoint);
  void on_index(const work::StoreResult& result, Outbox& out);
  void on_index_scanned(const work::ScannedIndex& scanned, Outbox& out);
  void next_file(Outbox& out);
  void on_header(const Pending& pending, const work::StoreResult& result, Outbox& out);
  void on_header_scanned(const work::ScannedHeader& scanned, Outbox& out);
  void begin_reading(Outbox& out);
  void begin_gate(Outbox& out);
  void begin_expert(ExpertIndex expert, Outbox& out);
  void begin_reads(const std::vector<Read>& reads, Pending pending, Outbox& out);
  void on_part(const Pending& pending, const work::ReadBytes& bytes, Outbox& out);
  void build_gate(Outbox& out);
  void build_expert(ExpertIndex expert, Outbox& out);
  void on_published(const Pending& pending, const work::Published& published, Outbox& out);
  void next_expert(Outbox& out);
  void finish_if_done();
  void answer_started(Outbox& out);
  [[nodiscard]] rpc::PrepareStartedAnswer started_answer() const;
  void read_gguf_prefix(std::uint64_t bytes, Outbox& out);
  void on_gguf_scanned(const work::ScannedGguf& scanned, Outbox& out);
  void on_imatrix_scanned(const work::ScannedGguf& scanned, Outbox& out);
  [[nodiscard]] Result<ExpertPlan> plan_of(ExpertIndex expert) const;
  [[nodiscard]] FindTensor finder() const;
  [[nodiscard]] Status check_plans() const;
  /// An error that names a tensor, with the file that holds it or should.
  [[nodiscard]] Error in_file(Error error) const;
  void refuse(Error error, Outbox& out);
  void finish(rpc::PrepareState state, std::optional<std::string> error);

  std::string id_;
  RequestId waiter_{};
  rpc::PrepareExpertsCall call_;
  const catalog::Model* model_ = nullptr;
  Options options_;
  work::JobIds& ids_;

  std::string root_;         ///< directory of the checkpoint
  std::string single_file_;  ///< the only file, or a GGUF's first; empty for a sharded checkpoint
  Checkpoint checkpoint_;
  std::vector<ExpertIndex> experts_;
  std::map<std::string, std::string, std::less<>> files_;  ///< tensor -> file, from the index
  std::deque<std::string> files_to_scan_;
  std::uint64_t file_bytes_ = 0;  ///< of the file being scanned
  /// The checkpoint's files are scanned, the imatrix file is the one at the front.
  bool is_scanning_imatrix_ = false;
  std::map<std::string, Located, std::less<>> located_;
  std::map<JobId, Pending> pending_;
  Parts<GatePlan> gate_parts_;
  std::map<ExpertIndex, Parts<ExpertPlan>> parts_;
  std::size_t next_ = 0;  ///< index into experts_

  rpc::PrepareState state_ = rpc::PrepareState::running;
  std::optional<std::string> error_;
  bool is_answered_ = false;
  bool was_refused_ = false;
  std::map<ExpertIndex, rpc::PreparedBlob> done_;
  std::optional<rpc::PreparedBlob> gate_done_;
};

}  // namespace tenzro::prepare
