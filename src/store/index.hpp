#pragma once
/// \file
/// Index: what the store remembers, in SQLite: which blobs there are, and which expert or gate each
/// serves.
///
/// Schema version 2 (PRAGMA user_version)
///   holdings      one row a (model, layer, expert); expert -1 is the layer's gate. `saved` grows
///                 with each save.
///   blobs         one row a blob that is wanted: by a holding, or because it was published.
///   damaged_rows  text of rows that were set aside.
/// A row of the first two ends in its digest (row_digest.hpp). A file of version 1 has none and
/// gets them when it is opened. Rules
///  - A change is one transaction, durable when the call returns (WAL, synchronous=FULL).
///  - A blob stays as long as a holding names it or it is published. A change that takes the last
///  reason away also
///    takes the blob's row, and says so: its file may go then, never before.
///  - A file whose pages are damaged, of another program or of a later version is refused by name,
///    and not touched.
///  - A row that is not what was written is set aside, and damage() counts it; the others stay.
///    Why: one flipped bit must neither be served nor cost every expert.
/// Cost: O(log n) a change; opening reads the whole file (quick_check, integrity_check, digests).
/// Thread: one at a time.
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

  struct Damage {
    std::uint64_t holdings = 0;
    std::uint64_t blobs = 0;
  };

  /// Rows that opening has set aside.
  [[nodiscard]] const Damage& damage() const { return damage_; }

  /// Rows of blobs were lost, now or at an earlier start: see adopt().
  [[nodiscard]] bool is_adopting() const { return is_adopting_; }

  /// Every file has been looked at.
  [[nodiscard]] Status end_adopting();

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
  /// A blob whose row may have been lost: as its holdings need it, or as published where none does.
  [[nodiscard]] Status adopt(const BlobRow& blob);
  /// Forgets the blob and every holding that names it.
  [[nodiscard]] Status forget(const BlobHash& hash);

 private:
  explicit Index(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  // index_file.cpp: the file as a whole
  Status check_file();
  Status add_digests();
  Status check_rows();
  Status set_damaged_aside();
  Status read_adopting();

  // index.cpp: its rows
  Result<std::optional<BlobHash>> hash_of_key(const LayerKey& layer,
                                              std::optional<ExpertIndex> expert);
  Status insert(const work::HoldingRow& row);
  Status add_blob(const BlobRow& blob);
  Result<std::optional<BlobRow>> drop_if_unneeded(const BlobHash& hash);

  std::unique_ptr<Database> database_;
  bool is_missing_ = false;
  std::int64_t last_saved_ = 0;
  Damage damage_;
  bool is_adopting_ = false;
};

}  // namespace tenzro::store
