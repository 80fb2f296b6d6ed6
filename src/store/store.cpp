#include "tenzro/store/store.hpp"

#include <atomic>
#include <utility>

#include "tenzro/base/bytes.hpp"

#include "job_log.hpp"
#include "lanes.hpp"
#include "shelf.hpp"
#include "sources.hpp"

namespace tenzro::store {
namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

/// Less is read sooner than somebody else wakes up to begin with it.
constexpr std::uint64_t kArrivingBytesMin = std::uint64_t{1} << 20U;

Error queue_full() {
  return {ErrorCode::busy, "store", "has too much to do"};
}

/// The lane of an operation: whatever changes something is ordered.
Lane lane_of(const work::StoreOp& op) {
  const bool only_reads = std::holds_alternative<work::ReadBlob>(op) ||
                          std::holds_alternative<work::OpenBlob>(op) ||
                          std::holds_alternative<work::ReadSource>(op) ||
                          std::holds_alternative<work::ReadBlobRange>(op);
  return only_reads ? Lane::free : Lane::ordered;
}

template <typename T>
work::StoreResult to_output(Result<T> result) {
  if (!result) return fail(result.error());
  return work::StoreOutput(std::move(*result));
}

work::StoreResult saved(const Status& status) {
  if (!status) return fail(status.error());
  return work::StoreOutput(work::Saved{});
}

work::StoreResult removed(const Result<bool>& existed) {
  if (!existed) return fail(existed.error());
  return work::StoreOutput(work::Removed{*existed});
}

}  // namespace

/// Used by one piece of work at a time: `is_busy` is taken when one is asked for.
class Upload {
 public:
  explicit Upload(std::shared_ptr<std::atomic<std::size_t>> open_uploads)
      : open_uploads_(std::move(open_uploads)) {}

  ~Upload() { --*open_uploads_; }

  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  [[nodiscard]] bool take() { return !is_busy_.exchange(true); }

  void release() { is_busy_ = false; }

  [[nodiscard]] Status append(BlobFiles& blobs, std::span<const std::byte> piece) {
    if (is_over_) return fail(over());
    if (!writer_) {
      Result<BlobWriter> begun = blobs.begin();
      if (!begun) return fail(begun.error());
      writer_.emplace(std::move(*begun));
    }
    Status written = writer_->append(piece);
    if (!written) end();
    return written;
  }

  [[nodiscard]] Result<work::Published> finish(Shelf& shelf) {
    if (is_over_) return fail(over());
    if (!writer_) return fail(ErrorCode::invalid_params, "blob", "is empty");
    Result<work::Published> published = shelf.publish(std::move(*writer_));
    end();
    return published;
  }

 private:
  static Error over() { return {ErrorCode::cancelled, "upload", "is over"}; }

  void end() {
    is_over_ = true;
    writer_.reset();
  }

  std::shared_ptr<std::atomic<std::size_t>> open_uploads_;
  std::atomic<bool> is_busy_{false};
  std::optional<BlobWriter> writer_;
  bool is_over_ = false;
};

struct Store::State {
  FileSystem& files;
  const Options options;
  const Completion completion;
  std::unique_ptr<Shelf> shelf;
  std::unique_ptr<JobLog> job_log;  ///< null: the disk had no room for it
  std::shared_ptr<std::atomic<std::size_t>> open_uploads =
      std::make_shared<std::atomic<std::size_t>>(0);
  Lanes lanes;  // last: its threads use what stands above

  State(FileSystem& file_system, const Options& chosen, Completion told,
        std::unique_ptr<Shelf> opened, std::unique_ptr<JobLog> log)
      : files(file_system),
        options(chosen),
        completion(std::move(told)),
        shelf(std::move(opened)),
        job_log(std::move(log)),
        lanes(chosen.threads, chosen.queue_max) {}

  work::StoreResult run(const work::StoreOp& op);
  /// Runs it and tells what came of it; of a blob that may arrive, as soon as it comes.
  void answer(JobId id, const work::StoreOp& op);
  [[nodiscard]] Beside beside();
  work::StoreResult whole(const work::ReadBlob& read);
  work::StoreResult opened(const work::OpenPartial& open);
  work::StoreResult published(const work::PublishBlob& publish);
  work::StoreResult saved_holding(const work::SaveHolding& save);

  [[nodiscard]] Error too_large(std::uint64_t bytes) const {
    return {ErrorCode::no_space, "blob",
            "of " + std::to_string(bytes) + " bytes is larger than the " +
                std::to_string(options.blob_bytes_max) + " bytes a blob may have"};
  }
};

Beside Store::State::beside() {
  return [this](std::function<void()> work) { return lanes.post(Lane::beside, std::move(work)); };
}

work::StoreResult Store::State::whole(const work::ReadBlob& read) {
  const Result<std::shared_ptr<ArrivingFile>> file = shelf->blobs().begin_read(read);
  if (!file) return fail(file.error());
  (*file)->fill(read.wants_hash, beside());
  return to_output((*file)->whole());
}

void Store::State::answer(JobId id, const work::StoreOp& op) {
  const auto* read = std::get_if<work::ReadBlob>(&op);
  if (read == nullptr || !read->may_arrive) return completion(id, run(op));
  const Result<std::shared_ptr<ArrivingFile>> file = shelf->blobs().begin_read(*read);
  if (!file) return completion(id, fail(file.error()));
  if (*file == nullptr) return completion(id, run(work::OpenBlob{read->hash}));
  const bool is_large = (*file)->size_bytes() >= kArrivingBytesMin;
  if (is_large) completion(id, work::StoreOutput(work::Arriving{*file, (*file)->mark()}));
  (*file)->fill(read->wants_hash, beside());
  if (!is_large) completion(id, to_output((*file)->whole()));
}

work::StoreResult Store::State::opened(const work::OpenPartial& open) {
  if (open.size_bytes > options.blob_bytes_max) return fail(too_large(open.size_bytes));
  return to_output(shelf->open_partial(open));
}

work::StoreResult Store::State::published(const work::PublishBlob& publish) {
  Result<work::Published> published = shelf->publish(publish.bytes);
  if (published && publish.part && job_log) {
    Status added = job_log->add(*publish.part, published->hash, published->size_bytes);
    if (!added) return fail(added.error());
  }
  return to_output(std::move(published));
}

work::StoreResult Store::State::saved_holding(const work::SaveHolding& save) {
  if (Status status = shelf->save(save); !status) return fail(status.error());
  return work::StoreOutput(work::Saved{shelf->blobs().mark_of(save.row.hash)});
}

work::StoreResult Store::State::run(const work::StoreOp& op) {
  return std::visit(
      Overloaded{
          [this](const work::SaveHolding& save) { return saved_holding(save); },
          [this](const work::RemoveHolding& remove) { return removed(shelf->remove(remove)); },
          [this](const work::PublishBlob& publish) { return published(publish); },
          [this](const work::ReadBlob& read) { return whole(read); },
          [this](const work::OpenBlob& blob) {
            return to_output(shelf->blobs().open_blob(blob.hash));
          },
          [this](const work::QuarantineBlob& bad) { return removed(shelf->quarantine(bad.hash)); },
          [this](const work::ReadSource& source) {
            return to_output(read_source(files, source, options.blob_bytes_max));
          },
          [this](const work::OpenPartial& open) { return opened(open); },
          [this](const work::WritePartial& write) {
            return to_output(shelf->write_partial(write));
          },
          [this](const work::FinishPartial& finish) {
            return to_output(shelf->finish_partial(finish));
          },
          [this](const work::ClosePartial& close) { return saved(shelf->close_partial(close)); },
          [this](const work::ReleaseBlob& release) { return removed(shelf->release(release)); },
          [this](const work::ReadBlobRange& range) {
            return to_output(shelf->blobs().read_part(range));
          },
          [this](const work::LogJob& job) { return saved(job_log ? job_log->log(job) : Status()); },
          [this](const work::ForgetJob& job) {
            return saved(job_log ? job_log->forget(job.id) : Status());
          },
          [this](const work::CheckSpace& space) { return saved(shelf->check_space(space.bytes)); }},
      op);
}

Result<OpenedStore> Store::open(const DataDir& dir, const Options& options, Completion completion) {
  const BlobFiles::Options blob_options{
      .directory = options.blob_dir.empty() ? dir.path_of("blobs") : options.blob_dir,
      .budget_bytes = options.disk_budget_bytes,
      .blob_bytes_max = options.blob_bytes_max};
  Result<Shelf::Opened> opened = Shelf::open(dir.path_of("index.db"), blob_options, dir.files());
  if (!opened) return fail(opened.error());
  std::string warning;
  Result<std::unique_ptr<JobLog>> log = JobLog::open(dir.path_of("jobs.db"), warning);
  if (!log && log.error().code != ErrorCode::no_space) return fail(log.error());
  // A full disk must not keep a node from its start, nor from freeing space.
  if (!log) warning = "prepare jobs are not remembered: " + log.error().message();
  if (!warning.empty()) opened->warnings.push_back(std::move(warning));
  std::unique_ptr<JobLog> job_log = log ? std::move(*log) : nullptr;
  Result<std::vector<work::LoggedJob>> jobs =
      job_log ? job_log->jobs() : std::vector<work::LoggedJob>();
  if (!jobs) return fail(jobs.error());
  for (work::LoggedJob& job : *jobs) {
    for (work::LoggedPart& part : job.parts)
      part.is_there = opened->shelf->blobs().exists(part.hash);
  }
  auto state = std::make_unique<State>(dir.files(), options, std::move(completion),
                                       std::move(opened->shelf), std::move(job_log));
  return OpenedStore{.store = std::unique_ptr<Store>(new Store(std::move(state))),
                     .rows = std::move(opened->rows),
                     .jobs = std::move(*jobs),
                     .warnings = std::move(opened->warnings)};
}

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}

Store::~Store() = default;

void Store::submit(JobId id, work::StoreOp op) {
  State* state = state_.get();
  const Lane lane = lane_of(op);
  const bool is_taken =
      state->lanes.post(lane, [state, id, op = std::move(op)] { state->answer(id, op); });
  if (!is_taken) state->completion(id, fail(queue_full()));
}

void Store::stat_blob(const BlobHash& hash,
                      const std::function<void(Result<std::uint64_t>)>& done) {
  State* state = state_.get();
  if (!state->lanes.post(Lane::free,
                         [state, hash, done] { done(state->shelf->blobs().size(hash)); })) {
    done(fail(queue_full()));
  }
}

void Store::read_range(const BlobHash& hash, std::uint64_t offset, std::uint64_t length,
                       const std::function<void(Result<BufferRef>)>& done) {
  State* state = state_.get();
  const auto read = [state, hash, offset, length, done] {
    done(state->shelf->blobs().read_range(hash, offset, length));
  };
  if (!state->lanes.post(Lane::free, read)) done(fail(queue_full()));
}

Result<std::shared_ptr<Upload>> Store::begin_upload(std::optional<std::uint64_t> expected_bytes) {
  const std::uint64_t expected = expected_bytes.value_or(0);
  if (expected > state_->options.blob_bytes_max) return fail(state_->too_large(expected));
  if (Status room = state_->shelf->blobs().budget().has_room_for(expected); !room)
    return fail(room.error());
  if (state_->open_uploads->fetch_add(1) >= state_->options.uploads_max) {
    --*state_->open_uploads;
    return fail(ErrorCode::busy, "store", "has too many uploads open");
  }
  return std::make_shared<Upload>(state_->open_uploads);
}

void Store::append(const std::shared_ptr<Upload>& upload, BufferRef piece,
                   const std::function<void(Status)>& done) {
  if (!upload->take())
    return done(fail(ErrorCode::busy, "upload", "has not taken the last piece yet"));
  State* state = state_.get();
  const auto write = [state, upload, piece = std::move(piece), done] {
    const Status written = upload->append(state->shelf->blobs(), piece.bytes());
    upload->release();
    done(written);
  };
  if (state->lanes.post(Lane::free, write)) return;
  upload->release();
  done(fail(queue_full()));
}

void Store::finish(const std::shared_ptr<Upload>& upload,
                   const std::function<void(Result<work::Published>)>& done) {
  if (!upload->take())
    return done(fail(ErrorCode::busy, "upload", "has not taken the last piece yet"));
  State* state = state_.get();
  const auto publish = [state, upload, done] {
    Result<work::Published> published = upload->finish(*state->shelf);
    upload->release();
    done(std::move(published));
  };
  if (state->lanes.post(Lane::ordered, publish)) return;
  upload->release();
  done(fail(queue_full()));
}

bool Store::run_beside(std::function<void()> work) {
  return state_->lanes.post(Lane::beside, std::move(work));
}

Usage Store::usage() const {
  const DiskBudget& budget = state_->shelf->blobs().budget();
  return {.blob_bytes = budget.used_bytes(), .budget_bytes = budget.budget_bytes()};
}

}  // namespace tenzro::store
