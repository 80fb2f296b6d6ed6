#pragma once
/// \file
/// Shelf: blob files and their index, kept in step.
///
/// Order of every change: a blob's file is durable before a row names it, and no row names it any
/// more before its file goes. So a crash between the two leaves at worst a file without a row, and
/// opening removes those. A failed change leaves the rows and every blob they name as they were,
/// and no file that only it would have needed. On open
///  - Files without a row are removed; unless rows of blobs were damaged: then any such file may
///    have been theirs, and is kept as published.
///  - There being files but no index at all is refused: it is the index that was lost then, not the
///    files.
///  - Holdings whose file is missing are not listed, and a warning counts them; their rows stay.
///  Why: a disk that is
///    not mounted today must not cost its experts for ever.
/// A blob under a lease has its file, counted by the budget, though no row may name it: whoever
/// fetched it is about to. Leases end with the process, and their files with the next open.
/// A change that frees space has some put by for it (space_reserve.hpp).
/// Thread: changes one at a time; `blobs()` as it says itself.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/work/job.hpp"

#include "blob_files.hpp"
#include "index.hpp"
#include "partials.hpp"
#include "space_reserve.hpp"

namespace tenzro::store {

class Shelf {
 public:
  struct Opened;

  [[nodiscard]] static Result<Opened> open(const std::string& index_path,
                                           const BlobFiles::Options& options, FileSystem& files);

  [[nodiscard]] Status save(const work::SaveHolding& holding);
  /// Whether there was such a holding.
  [[nodiscard]] Result<bool> remove(const work::RemoveHolding& holding);
  [[nodiscard]] Result<work::Published> publish(const BufferRef& bytes);
  [[nodiscard]] Result<work::Published> publish(BlobWriter writer);
  /// Whether the blob really was damaged (or unreadable, or missing). One that is intact stays: it
  /// may have been written anew since the read that failed.
  [[nodiscard]] Result<bool> quarantine(const BlobHash& hash);

  [[nodiscard]] Result<work::OpenedPartial> open_partial(const work::OpenPartial& open);
  [[nodiscard]] Result<work::WrittenPartial> write_partial(const work::WritePartial& write);
  [[nodiscard]] Result<work::FinishedPartial> finish_partial(const work::FinishPartial& finish);
  [[nodiscard]] Status close_partial(const work::ClosePartial& close);
  /// Kept partials give way. Error: no_space.
  [[nodiscard]] Status check_space(std::uint64_t bytes);
  /// Whether that many leases were there.
  [[nodiscard]] Result<bool> release(const work::ReleaseBlob& release);

  [[nodiscard]] BlobFiles& blobs() { return *blobs_; }

 private:
  struct Lease {
    std::uint64_t size_bytes = 0;
    std::uint32_t count = 0;
  };

  Shelf(std::unique_ptr<BlobFiles> blobs, std::unique_ptr<Index> index,
        std::unique_ptr<Partials> partials, SpaceReserve reserve)
      : blobs_(std::move(blobs)),
        index_(std::move(index)),
        partials_(std::move(partials)),
        reserve_(std::move(reserve)) {}

  /// A blob that no row names any more; one under a lease stays.
  void drop_file(const std::optional<BlobRow>& unneeded);
  [[nodiscard]] Result<bool> is_counted(const BlobHash& hash);

  /// The blobs of the index whose files are missing, ascending.
  Result<std::vector<BlobHash>> reconcile();
  Status reconcile_folder(std::uint8_t first_byte, std::vector<BlobHash>& gone);
  /// A file that no row names.
  Status settle_stray(const BlobHash& hash);
  /// Puts the blob of `hash`, then runs `record`; undoes the first where the second fails.
  Status put_and_record(const BlobRow& blob, const std::function<Status(BlobFiles::Counted)>& put,
                        const std::function<Status()>& record);

  std::unique_ptr<BlobFiles> blobs_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<Partials> partials_;
  std::map<BlobHash, Lease> leases_;
  SpaceReserve reserve_;
};

struct Shelf::Opened {
  std::unique_ptr<Shelf> shelf;
  /// Most recently saved first.
  std::vector<work::HoldingRow> rows;
  std::vector<std::string> warnings;
};

}  // namespace tenzro::store
