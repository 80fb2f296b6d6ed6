#pragma once
/// \file
/// Store: everything the node keeps on disk besides its identity, behind a few threads.
///
/// Keeps the blobs (files named by their BLAKE3) and an index of which blob serves which expert or
/// gate. Rules
///  - A completed SaveHolding or PublishBlob survives a kill and a power cut; a failed one leaves
///  the previous holding of
///    that key, and its blob, as they were. Why: an operator reloads a live expert.
///  - Changes happen one at a time, in order of submission; reads run beside them. Why: the blob
///  that one change drops
///    may be the one the next needs.
///  - A blob goes when no holding names it and it was not published; published ones stay.
///  - The bytes of all blobs stay within `disk_budget_bytes`; beyond it a change is refused with
///  the numbers. Nothing
///    is dropped to make room. Replacing a holding needs room for both for a moment.
///  - A damaged blob is moved to `quarantine/` when asked, and only if reading it again shows the
///  damage.
///  - Opening refuses, naming the file: an index that is damaged, of a later version, or missing
///  beside blobs.
///  - A blob fetched from peers is written in pieces, in any order, into a partial
///  (work/partial.hpp) and seen by nobody before its hash is right. Then it has a lease until
///  whoever fetched it let go: by then a holding or a publication keeps it, or it goes. Partials
///  outlive the process; those that nobody writes give way to whatever needs their room.
///  - What prepare jobs are and have published is kept in a log beside the index; damaged, it is
///  set aside with a warning and begun anew.
/// Bounds: `queue_max` pieces of work (beyond: `busy`), `uploads_max` uploads, `blob_bytes_max` a
/// blob. Cost: opening lists every blob and reads the index once. A save costs two fsyncs of files,
/// one of a folder. Thread: all members from any thread. Completions run on a thread of the store,
/// or, where the queue is full, inside the call: they should only post to whoever cares. The
/// destructor waits for what runs and drops what waits.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/store/data_dir.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::store {

struct Options {
  /// Where blobs are kept; empty: `<data_dir>/blobs`. One node a directory.
  std::string blob_dir;
  /// Bytes of blobs; 0: as many as fit the disk.
  std::uint64_t disk_budget_bytes = 0;
  /// Largest blob, and most that one read gives. Experts have tens of megabytes, the largest gates
  /// some gigabytes.
  std::uint64_t blob_bytes_max = std::uint64_t{16} << 30U;
  /// Uploads that are open at once.
  std::size_t uploads_max = 16;
  /// One for changes and one so that reads need not wait for them. More hash and pack blobs while
  /// they are read, and help disks that like parallel reads.
  std::size_t threads = 2;
  std::size_t queue_max = 4096;
};

struct Usage {
  /// Blobs, and uploads under way.
  std::uint64_t blob_bytes = 0;
  /// 0: no budget.
  std::uint64_t budget_bytes = 0;
};

/// A blob that arrives in pieces (store.cpp). Dropping the last handle of one that is not finished
/// discards it.
class Upload;

struct OpenedStore;

class Store {
 public:
  using Completion = std::function<void(JobId, work::StoreResult)>;

  /// `dir` and its FileSystem must outlive the store. Error: busy (the blob directory is another
  /// node's), io, no_space.
  [[nodiscard]] static Result<OpenedStore> open(const DataDir& dir, const Options& options,
                                                Completion completion);

  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Exactly one completion each, as long as the store lives. QuarantineBlob and ReleaseBlob give
  /// Removed, ClosePartial gives Saved.
  void submit(JobId id, work::StoreOp op);

  /// Size of a blob, for whoever wants to fetch it. Error: not_found, io, busy.
  void stat_blob(const BlobHash& hash, const std::function<void(Result<std::uint64_t>)>& done);
  /// Bytes [offset, offset + length) of a blob. Error: also invalid_params where they are not
  /// inside it.
  void read_range(const BlobHash& hash, std::uint64_t offset, std::uint64_t length,
                  const std::function<void(Result<BufferRef>)>& done);

  /// `expected_bytes`, where known, is refused at once if it cannot fit. Error: busy, no_space.
  [[nodiscard]] Result<std::shared_ptr<Upload>> begin_upload(
      std::optional<std::uint64_t> expected_bytes);
  /// One piece at a time: wait for `done` before the next. After an error the upload is over.
  void append(const std::shared_ptr<Upload>& upload, BufferRef piece,
              const std::function<void(Status)>& done);
  /// Publishes the blob. The upload is over.
  void finish(const std::shared_ptr<Upload>& upload,
              const std::function<void(Result<work::Published>)>& done);

  /// Runs other work that may wait for the disk on a thread of the store, beside the reads and
  /// before all that waits. Of the store's own work it may wait for what runs already, such as the
  /// reading of a blob that arrives. False, and nothing runs, where the queue is full.
  [[nodiscard]] bool run_beside(std::function<void()> work);

  [[nodiscard]] Usage usage() const;

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

struct OpenedStore {
  std::unique_ptr<Store> store;
  /// Every holding, gates and experts, most recently saved first.
  std::vector<work::HoldingRow> rows;
  /// The prepare jobs of earlier lives, the first started first.
  std::vector<work::LoggedJob> jobs;
  /// What an operator should hear about, in sentences.
  std::vector<std::string> warnings;
};

}  // namespace tenzro::store
