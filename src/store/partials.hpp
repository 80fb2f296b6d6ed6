#pragma once
/// \file
/// Partials: blobs of which pieces arrive in any order, kept over a restart.
///
///     <directory>/<hash>.part   the bytes, with holes
///     <directory>/<hash>.map    "tzpart1\n", u64 size, then u64 begin and u64 end of each piece
///                               written, little-endian
/// Rules
///  - Room for the whole blob is reserved before the first byte: in the budget, and on the disk
///  with kDiskReserveBytes to spare. Why: a download that fails at its end was for nothing.
///  - The map is written after the bytes it tells of and is not synced: what a power cut leaves may
///  be wrong, and only the hash of the whole decides. A record cut short is passed over.
///  - One that is closed but kept goes, the oldest first, as soon as something else needs its room.
///  At most kPartialsKeptMax are kept.
///  - The hash is computed along with the pieces as far as they follow one another from the start,
///  so that the end has little left to read.
/// Thread: one at a time.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/crypto/blake3.hpp"
#include "tenzro/store/file_system.hpp"
#include "tenzro/work/partial.hpp"

#include "disk_budget.hpp"
#include "fd.hpp"
#include "range_map.hpp"

namespace tenzro::store {

inline constexpr std::size_t kPartialsKeptMax = 8;
inline constexpr std::size_t kPartialsOpenMax = 64;
/// What a fetch leaves free on the disk for everybody else.
inline constexpr std::uint64_t kDiskReserveBytes = std::uint64_t{16} << 20U;

class Partials {
 public:
  /// Takes over what an earlier life left, as far as there is room for it; the rest is removed.
  [[nodiscard]] static Result<std::unique_ptr<Partials>> open(std::string directory,
                                                              FileSystem& files,
                                                              std::shared_ptr<DiskBudget> budget);

  /// What is there of the blob. Error: no_space, io, busy.
  [[nodiscard]] Result<std::vector<work::ByteRange>> begin(const BlobHash& hash,
                                                           std::uint64_t size_bytes);
  /// The BLAKE3 of `bytes`. Error: not_found where it is not open, invalid_params, no_space, io.
  [[nodiscard]] Result<BlobHash> write(const BlobHash& hash, std::uint64_t offset,
                                       std::span<const std::byte> bytes);
  /// Whether the bytes hash to the name. Error: also invalid_params where some are missing.
  [[nodiscard]] Result<bool> is_intact(const BlobHash& hash);

  struct Whole {
    std::string path;
    Fd file;
    Reservation reservation;
  };

  /// The file of a whole partial, for whoever puts it in place; it is no partial any more.
  [[nodiscard]] Result<Whole> take(const BlobHash& hash);

  /// One that is not there is no error.
  [[nodiscard]] Status close(const BlobHash& hash, work::Leftover leftover);
  /// Removes kept ones until budget and disk have room for `bytes`, or none are left.
  void make_room(std::uint64_t bytes);
  /// Error: no_space, with the numbers, where the disk would be left with less than its reserve.
  [[nodiscard]] Status has_room_on_disk(std::uint64_t bytes) const;

 private:
  struct Partial {
    std::uint64_t size_bytes = 0;
    Reservation reservation;
    Fd bytes;
    Fd map;
    Ranges ranges;
    crypto::Blake3 hasher;
    std::uint64_t hashed_to = 0;
    bool is_open = false;
    std::uint64_t closed_as = 0;  ///< order of closing, for whose turn it is to go
  };

  Partials(std::string directory, FileSystem& files, std::shared_ptr<DiskBudget> budget)
      : directory_(std::move(directory)), files_(files), budget_(std::move(budget)) {}

  [[nodiscard]] std::string path_of(const BlobHash& hash, const char* ending) const;
  Status take_over();
  void take_over_one(const BlobHash& hash);
  Status open_files(const BlobHash& hash, Partial& partial);
  Status write_map(const BlobHash& hash, Partial& partial);
  Status write_all(int fd, const std::string& path, std::span<const std::byte> bytes,
                   std::optional<std::uint64_t> offset);
  Status hash_up_to(const BlobHash& hash, Partial& partial, std::uint64_t end);
  [[nodiscard]] Partial* find_open(const BlobHash& hash);
  void forget_hash(Partial& partial);
  Status remove(const BlobHash& hash);
  /// The kept one that goes first, or end().
  std::map<BlobHash, Partial>::iterator oldest_kept();

  const std::string directory_;
  FileSystem& files_;
  std::shared_ptr<DiskBudget> budget_;
  std::map<BlobHash, Partial> partials_;
  std::uint64_t closed_ = 0;
};

}  // namespace tenzro::store
