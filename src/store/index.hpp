#pragma once
/// \file
/// Index: what the store remembers, in SQLite: which blobs there are, and which expert or gate each
/// serves.
///
/// Schema version 1 (PRAGMA user_version)
///   holdings  one row a (model, layer, expert); expert -1 is the layer's gate. `saved` grows with
///   each save. blobs     one row a blob that is wanted: by a holding, or because it was published.
/// Rules
///  - A change is one transaction, durable when the call returns (WAL, synchronous=FULL).
///  - A blob stays as long as a holding names it or it is published. A change that takes the last
///  reason away also
///    takes the blob's row, and says so: its file may go then, never before.
///  - A file that is damaged, of another program or of a later version is refused by name, and not
///  touched.
/// Cost: O(log n) a change; opening reads the whole file once (quick_check). Thread: one at a time.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/work/job.hpp"

#include "sqlite.hpp"

namespace tenzro::store {

struct BlobRow {
  BlobHash hash{};
  std::uint64_t size_bytes = 0;
};

class Index {
 public:
  /// Does not make what is missing. Error: io, busy.
  [[nodiscard]] static Result<std::unique_ptr<Index>> open(const std::string& path);

  /// True where there was none: nothing else may be asked before create().
  [[nodiscard]] bool is_missing() const { return is_missing_; }

  /// Error: io, no_space.
  [[nodiscard]] Status create();
  /// The error that says there should have been one.
  [[nodiscard]] Error missing(std::string_view why) const;

  /// Most recently saved first.
  [[nodiscard]] Result<std::vector<work::HoldingRow>> holdings();
  /// Blobs whose hash begins with `first_byte`, ascending.
  [[nodiscard]] Result<std::vector<BlobRow>> blobs(std::uint8_t first_byte);
  [[nodiscard]] Result<std::optional<BlobRow>> blob(const BlobHash& hash);

  struct Removed {
    bool existed = false;
    /// The blob that nothing needs any more.
    std::optional<BlobRow> unneeded;
  };

  /// Replaces the key's row. `existed` is about the row it replaced.
  [[nodiscard]] Result<Removed> save(const work::HoldingRow& row, std::uint64_t blob_bytes);
  [[nodiscard]] Result<Removed> remove(const LayerKey& layer, std::optional<ExpertIndex> expert);
  [[nodiscard]] Status publish(const BlobRow& blob);
  /// Forgets the blob and every holding that names it.
  [[nodiscard]] Status forget(const BlobHash& hash);

 private:
  explicit Index(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  Status check_file();
  Result<std::optional<BlobHash>> hash_of_key(const LayerKey& layer,
                                              std::optional<ExpertIndex> expert);
  Status insert(const work::HoldingRow& row);
  Status add_blob(const BlobRow& blob);
  Result<std::optional<BlobRow>> drop_if_unneeded(const BlobHash& hash);

  std::unique_ptr<Database> database_;
  bool is_missing_ = false;
  std::int64_t last_saved_ = 0;
};

}  // namespace tenzro::store
