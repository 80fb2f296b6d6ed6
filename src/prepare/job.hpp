#pragma once
/// \file
/// One prepare job: from config.json to published blobs, as a state machine.
///
/// Steps: config -> (answer) -> index, read and scanned once for all layers -> layer after layer:
/// headers, a file at a time -> space ->
/// gate and experts, a few at a time. A GGUF file has all but its tensors in its header: header ->
/// (answer) -> headers of further parts -> layer after layer: space -> gate and experts. Each step
/// asks for one or more reads or computations; `pending_` and `reads_` say what each outstanding
/// one is for. After the end everything late is ignored. job.cpp: begin, end and what comes back;
/// job_files.cpp: config, index and headers; job_gguf.cpp: those of GGUF files; job_parts.cpp:
/// gates and experts; job_loads.cpp: loads of what was published; job_status.cpp: what is told of
/// it.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/prepare/jobs.hpp"

#include "checkpoint.hpp"
#include "gguf_parts.hpp"
#include "layer_plan.hpp"
#include "record.hpp"
#include "source_reader.hpp"

namespace tenzro::prepare {

/// What a job uses of its node; all outlive it.
struct JobContext {
  const Options& options;
  const catalog::Model* model = nullptr;  ///< null: not in the catalogue
  work::JobIds& ids;
  work::CallIds& calls;
  Prng& prng;
};

/// How long a start waits for what the checkpoint says of itself.
inline constexpr Duration kAnswerWithin = std::chrono::seconds(5);

class Job {
 public:
  Job(std::string id, rpc::PrepareExpertsCall call, const JobContext& context);

  void start(Instant now, RequestId waiter, Outbox& out);
  /// A job of an earlier life, with what it published.
  void restore(const JobRecord& record, const std::vector<work::LoggedPart>& parts);
  /// Goes on where it ended; the waiter, if any, is answered at once.
  void resume(Instant now, std::optional<RequestId> waiter, Outbox& out);
  void on_job_done(Instant now, JobId id, const work::JobResult& result, Outbox& out);
  void on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out);
  void on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded, Outbox& out);
  void on_loaded(Instant now, JobId id, const Status& status, Outbox& out);
  void on_tick(Instant now, Outbox& out);
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  /// False where it was over already.
  bool cancel(Instant now, Outbox& out);
  /// Ends a job that cannot go on now.
  void give_up(Instant now, const std::string& why, Outbox& out);

  [[nodiscard]] const std::string& id() const { return id_; }

  [[nodiscard]] bool is_running() const { return state_ == rpc::PrepareState::running; }

  [[nodiscard]] bool is_completed() const { return state_ == rpc::PrepareState::completed; }

  /// False for a job whose start was refused.
  [[nodiscard]] bool is_known() const { return !was_refused_; }

  [[nodiscard]] std::size_t parts() const { return done_.size() + gates_done_.size(); }

  [[nodiscard]] rpc::PrepareStatusAnswer status(Instant now) const;
  /// Without the blobs.
  [[nodiscard]] rpc::PrepareStatusAnswer summary(Instant now) const;

 private:
  enum class Purpose : std::uint8_t {
    config,
    index,
    index_scan,
    header_length,
    header,
    header_scan,
    gguf_prefix,
    gguf_scan,
    space,
    gate_part,
    gate_build,
    gate_publish,
    gate_load,
    expert_part,
    expert_build,
    expert_publish,
    expert_load,
    there,   ///< whether the store still has what an earlier life published
    held,    ///< whether what an earlier life published is loaded
    logged,  ///< nothing follows
  };

  struct Pending {
    Purpose purpose = Purpose::config;
    ExpertIndex expert = 0;
    std::size_t part = 0;
    LayerIndex layer = 0;  ///< of `there` and `held`; there `part` is 1 for a gate
  };

  struct Located {
    std::string file;
    work::SourceTensor info;
  };

  using Tensors = std::map<std::string, Located, std::less<>>;

  /// Of a safetensors file. Without `json`: only its length is known.
  struct Header {
    std::string file;
    std::uint64_t file_bytes = 0;
    BufferRef json;
  };

  /// A blob that is being made, until it is published and, where it is to be, loaded.
  struct Making {
    std::size_t missing = 0;  ///< reads of its plan
    rpc::PreparedBlob blob;
    BufferRef bytes;
  };

  /// With what it is made of, as its bytes come in.
  template <typename Plan>
  struct Parts : Making {
    Plan plan;
  };

  /// What the layer at work still takes.
  struct Needs {
    std::uint64_t source_bytes = 0;
    std::uint64_t blob_bytes = 0;
  };

  using Slot = std::pair<LayerIndex, ExpertIndex>;

  // job.cpp
  void ask(Pending pending, SourceRead read, Outbox& out);
  void ask(Pending pending, work::StoreOp op, Outbox& out);
  void ask(Pending pending, work::Job job, Outbox& out);
  void take_reads(Outbox& out);
  void on_read(const Pending& pending, const work::StoreResult& result, Outbox& out);
  void log(Outbox& out);
  void refuse(Error error, Outbox& out);
  void finish(rpc::PrepareState state, std::optional<std::string> error, Outbox& out);

  // job_loads.cpp
  void ask_load(Pending pending, const rpc::PreparedBlob& blob, BufferRef bytes, Outbox& out);
  void ask_if_held(Pending pending, const rpc::PreparedBlob& blob, Outbox& out);
  void check_published(Outbox& out);
  void ask_if_there(Outbox& out);
  void on_there(const Pending& pending, const work::StoreResult& result, Outbox& out);
  void check_held(Outbox& out);
  void forget_blob(const Pending& pending);
  void on_held(const Pending& pending, bool is_held, Outbox& out);

  // job_files.cpp
  [[nodiscard]] Result<SourceAddress> find_source() const;
  void begin(Outbox& out);
  void on_config(const work::StoreResult& result, Outbox& out);
  [[nodiscard]] Status accept(const Checkpoint& checkpoint);
  void begin_accepted(Checkpoint checkpoint, Outbox& out);
  [[nodiscard]] Status choose_layers(const Checkpoint& checkpoint);
  [[nodiscard]] Status choose_experts(const Checkpoint& checkpoint);
  void begin_index(Outbox& out);
  void begin_layers(Outbox& out);
  void find_files(Outbox& out);
  void next_layer(Outbox& out);
  [[nodiscard]] bool is_layer_done(LayerIndex layer) const;
  void on_index(const work::StoreResult& result, Outbox& out);
  void on_index_scanned(const work::ScannedIndex& scanned, Outbox& out);
  void next_file(Outbox& out);
  void scan_header_of_file(Outbox& out);
  void on_header(const Pending& pending, const work::StoreResult& result, Outbox& out);
  void on_header_scanned(const work::ScannedHeader& scanned, Outbox& out);

  // job_gguf.cpp
  void begin_gguf(Outbox& out);
  void next_gguf(Outbox& out);
  void read_gguf_prefix(std::uint64_t bytes, Outbox& out);
  void on_gguf_prefix(const work::StoreResult& result, Outbox& out);
  void on_gguf_scanned(const work::ScannedGguf& scanned, Outbox& out);
  void on_first_gguf(const std::string& file, const work::ScannedGguf& scanned, Outbox& out);

  // job_parts.cpp
  void begin_reading(Outbox& out);
  void on_space(Outbox& out);
  void begin_gate(Outbox& out);
  void begin_expert(ExpertIndex expert, Outbox& out);
  void begin_reads(const std::vector<Read>& reads, Pending pending, Outbox& out);
  void on_part(const Pending& pending, const work::ReadBytes& bytes, Outbox& out);
  void build_gate(Outbox& out);
  void build_expert(ExpertIndex expert, Outbox& out);
  void on_built(const Pending& pending, const work::BuiltExpertBlob& built, Outbox& out);
  void on_published(const Pending& pending, const work::Published& published, Outbox& out);
  void on_part_done(const Pending& pending, Outbox& out);
  void next_expert(Outbox& out);
  void finish_layer_if_done(Outbox& out);
  [[nodiscard]] const Located* locate(const std::string& tensor) const;
  [[nodiscard]] FindTensor finder() const;
  [[nodiscard]] Result<ExpertPlan> plan_of(ExpertIndex expert) const;
  /// Plans everything that the call wants of the layer.
  [[nodiscard]] Result<Needs> check_plans() const;
  /// An error that names a tensor, with the file that holds it or should.
  [[nodiscard]] Error in_file(Error error) const;
  [[nodiscard]] Error while_reading(const Pending& pending, Error error) const;
  [[nodiscard]] Error while_building(const Pending& pending, Error error) const;

  // job_status.cpp
  [[nodiscard]] rpc::PrepareProgress progress(Instant now) const;
  [[nodiscard]] std::size_t later_layers() const;
  [[nodiscard]] rpc::PrepareStartedAnswer started_answer() const;
  void answer_started(RequestId waiter, Outbox& out) const;
  [[nodiscard]] rpc::PrepareState shown_state() const;
  /// Its caller need not wait for what the checkpoint says of itself.
  void answer_in_time(Outbox& out);

  std::string id_;
  RequestId waiter_{};
  rpc::PrepareExpertsCall call_;  ///< `layer` is the one at work
  JobContext context_;
  const Options& options_;
  Instant now_{};  ///< of the last event

  std::optional<SourceReader> reader_;
  FileVersions files_known_;  ///< of an earlier life
  std::string single_file_;   ///< the only file, or a GGUF's first; empty for a sharded checkpoint
  /// Of a sharded checkpoint: where the tensors of all layers are.
  std::shared_ptr<const work::ShardIndex> shards_;
  Checkpoint checkpoint_;
  std::vector<LayerIndex> layers_;
  std::size_t next_layer_ = 0;  ///< index into layers_
  std::vector<ExpertIndex> experts_;
  std::deque<std::string> files_to_scan_;
  Header header_;         ///< the last that was read: layers often share a file
  Tensors located_;       ///< of the layer at work, from headers of safetensors
  Tensors gguf_located_;  ///< of every layer, from headers of GGUF files and of the imatrix
  GgufParts gguf_parts_;
  std::map<JobId, Pending> pending_;
  std::map<ReadId, Pending> reads_;
  Parts<GatePlan> gate_parts_;
  std::map<ExpertIndex, Parts<ExpertPlan>> parts_;
  std::size_t next_ = 0;  ///< index into experts_

  rpc::PrepareState state_ = rpc::PrepareState::running;
  std::optional<std::string> error_;
  bool is_answered_ = false;
  bool is_accepted_ = false;  ///< what the checkpoint says of itself suits the call
  bool was_refused_ = false;
  std::map<Slot, rpc::PreparedBlob> done_;
  std::map<LayerIndex, rpc::PreparedBlob> gates_done_;
  std::vector<Pending> unchecked_;  ///< blobs of which the store has not said whether it has them
  std::size_t held_unknown_ = 0;  ///< blobs of which the node has not said whether they are loaded

  // Progress, of this life.
  Instant begun_{};
  Instant ended_{};
  std::uint64_t layer_bytes_ = 0;          ///< of the checkpoint, that the layer at work needs
  std::uint64_t earlier_bytes_ = 0;        ///< of the layers before it
  std::size_t earlier_layers_ = 0;         ///< how many those are
  std::uint64_t bytes_left_of_layer_ = 0;  ///< not read yet
};

}  // namespace tenzro::prepare
