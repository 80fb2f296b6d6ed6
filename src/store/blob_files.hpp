#pragma once
/// \file
/// BlobFiles: blobs as files named by their BLAKE3.
///
///     <directory>/lock            one process a directory
///     <directory>/ab/abcd…ef      a blob; its name is the hash of its bytes, its folder the first
///     byte of it <directory>/tmp/            being written; emptied on open
///     <directory>/partial/        blobs that arrive in pieces (partials.hpp)
///     <directory>/quarantine/     blobs that were found damaged, the newest kQuarantineFilesMax of
///     them
/// Rules
///  - A blob appears whole and durable, or not at all (temp_file.hpp).
///  - Putting a blob that is there reads it back: where it has been damaged it is written anew.
///  Why: whoever loads an
///    expert again must not be told "stored" about bytes that are no longer those.
///  - Read with pread, never mapped. Why: a disk error under a mapping is a signal that kills the
///  process.
///  - Names are 64 hex digits made here; nothing a client says becomes part of a path.
/// Whether a blob is wanted is not known here: see shelf.hpp.
/// Thread: list and put and remove one at a time; begin, append and reads from any.
#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/crypto/blake3.hpp"
#include "tenzro/store/file_system.hpp"
#include "tenzro/work/job.hpp"
#include "tenzro/work/partial.hpp"

#include "arriving_file.hpp"
#include "directory_lock.hpp"
#include "disk_budget.hpp"
#include "fd.hpp"
#include "file_reader.hpp"
#include "temp_file.hpp"

namespace tenzro::store {

/// Damaged blobs kept for whoever wants to know what happened to the disk.
inline constexpr std::size_t kQuarantineFilesMax = 8;

/// A blob being written piece by piece, its name not known before the end.
class BlobWriter {
 public:
  BlobWriter(TempFile file, Reservation reservation, std::uint64_t bytes_max)
      : file_(std::move(file)), reservation_(std::move(reservation)), bytes_max_(bytes_max) {}

  /// Error: no_space (budget, disk, or larger than any blob may be), io.
  [[nodiscard]] Status append(std::span<const std::byte> bytes);

  [[nodiscard]] BlobHash hash() const { return hasher_.digest(); }

  [[nodiscard]] std::uint64_t size_bytes() const { return reservation_.bytes(); }

 private:
  friend class BlobFiles;

  TempFile file_;
  Reservation reservation_;
  std::uint64_t bytes_max_;
  crypto::Blake3 hasher_;
};

class BlobFiles {
 public:
  struct Options {
    std::string directory;
    std::uint64_t budget_bytes = 0;
    std::uint64_t blob_bytes_max = 0;
  };

  /// Whether the budget counts a blob already.
  enum class Counted : std::uint8_t { no, yes };

  [[nodiscard]] static Result<std::unique_ptr<BlobFiles>> open(const Options& options,
                                                               FileSystem& files);

  /// The blobs whose hash begins with `first_byte`, ascending. Other files are passed over.
  [[nodiscard]] Result<std::vector<BlobHash>> list(std::uint8_t first_byte) const;

  /// `bytes` must hash to `hash`.
  [[nodiscard]] Status put(const BlobHash& hash, std::span<const std::byte> bytes, Counted counted);
  [[nodiscard]] Status put(BlobWriter writer, Counted counted);
  /// Puts a file in place that hashes to `hash`. `file` is that of `path`, on this file system.
  [[nodiscard]] Status adopt(const BlobHash& hash, const std::string& path, Fd file);
  /// Gives `size_bytes` back to the budget. A file that is not there is no error.
  [[nodiscard]] Status remove(const BlobHash& hash, std::uint64_t size_bytes);
  /// Removes a file that the budget does not count.
  [[nodiscard]] Status remove_uncounted(const BlobHash& hash);
  /// A file of ours anywhere below the directory.
  [[nodiscard]] Status remove_path(const std::string& path);
  [[nodiscard]] Status quarantine(const BlobHash& hash, std::uint64_t size_bytes);

  [[nodiscard]] Result<BlobWriter> begin();
  [[nodiscard]] bool exists(const BlobHash& hash) const;
  /// Whether the file is there and hashes to its name. Error: busy where the system could not look.
  [[nodiscard]] Result<bool> is_intact(const BlobHash& hash) const;
  /// Error: not_found, io.
  [[nodiscard]] Result<std::uint64_t> size(const BlobHash& hash) const;
  /// The caller fills it. `bytes_max` 0: any size a blob may have. Null: it has more than
  /// `whole_bytes_max`. Error: also infrastructure where it has more than `bytes_max`.
  [[nodiscard]] Result<std::shared_ptr<ArrivingFile>> begin_read(
      const work::ReadBlob& wanted) const;
  /// The source keeps the file open: it gives these bytes also where the blob is removed meanwhile.
  [[nodiscard]] Result<work::OpenedBlob> open_blob(const BlobHash& hash) const;
  /// Of its file now; 0 where there is none.
  [[nodiscard]] work::FileMark mark_of(const BlobHash& hash) const;
  /// Error: also invalid_params where the range is not inside the blob.
  [[nodiscard]] Result<BufferRef> read_range(const BlobHash& hash, std::uint64_t offset,
                                             std::uint64_t length) const;
  [[nodiscard]] Result<work::BlobRange> read_part(const work::ReadBlobRange& range) const;

  [[nodiscard]] DiskBudget& budget() { return *budget_; }

  [[nodiscard]] const std::shared_ptr<DiskBudget>& shared_budget() const { return budget_; }

  [[nodiscard]] std::string partial_directory() const { return options_.directory + "/partial"; }

  [[nodiscard]] std::string path_of(const BlobHash& hash) const;
  /// Errors, of its reads too, name the blob instead of the path: that is what clients know it by.
  [[nodiscard]] Result<FileReader> open_file(const BlobHash& hash) const;

 private:
  BlobFiles(const Options& options, FileSystem& files, DirectoryLock lock);

  Status make_folder(const std::string& name);
  Status make_folder_of(const BlobHash& hash);
  Status empty_tmp();
  Status trim_quarantine();
  std::string next_temp_path();

  const Options options_;
  FileSystem& files_;
  DirectoryLock lock_;
  std::shared_ptr<DiskBudget> budget_;
  /// Folders of this directory whose own entries are known to be durable, by first byte.
  std::bitset<256> durable_folders_;
  std::atomic<std::uint64_t> temp_number_{0};
};

}  // namespace tenzro::store
