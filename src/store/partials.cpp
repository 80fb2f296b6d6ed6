#include "partials.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/statvfs.h>

#include "tenzro/base/bytes.hpp"

#include "file_reader.hpp"
#include "os_error.hpp"

namespace tenzro::store {
namespace {

constexpr unsigned kFolderMode = 0700;
constexpr unsigned kFileMode = 0600;
constexpr std::size_t kHashChunkBytes = std::size_t{1} << 20U;
/// A write hashes at most so much of what was there before it, so that one that closes a gap does
/// not hold up the others.
constexpr std::uint64_t kCatchUpBytesMax = std::uint64_t{16} << 20U;

Error not_open(const BlobHash& hash) {
  return {ErrorCode::not_found, "partial blob " + to_hex(hash), "is not open"};
}

std::uint64_t bytes_in(const Ranges& ranges) {
  std::uint64_t total = 0;
  for (const auto& [begin, end] : ranges) total += end - begin;
  return total;
}

/// The blobs that have a file here, oldest change first. Other files are removed.
Result<std::vector<BlobHash>> leftovers_in(const std::string& directory) {
  std::map<BlobHash, std::filesystem::file_time_type> found;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::filesystem::path& path = entry->path();
    const std::optional<Hash32> hash = hash_from_hex(path.stem().string());
    std::error_code ignored;
    if (!hash || (path.extension() != ".part" && path.extension() != ".map")) {
      std::filesystem::remove(path, ignored);
      continue;
    }
    auto& changed = found.try_emplace(*hash, std::filesystem::file_time_type::min()).first->second;
    changed = std::max(changed, std::filesystem::last_write_time(path, ignored));
  }
  if (error) return fail(os_error(directory, "list", error.value()));
  std::vector<BlobHash> hashes;
  hashes.reserve(found.size());
  for (const auto& [hash, changed] : found) hashes.push_back(hash);
  std::stable_sort(hashes.begin(), hashes.end(), [&found](const BlobHash& a, const BlobHash& b) {
    return found.at(a) < found.at(b);
  });
  return hashes;
}

}  // namespace

Result<std::unique_ptr<Partials>> Partials::open(std::string directory, FileSystem& files,
                                                 std::shared_ptr<DiskBudget> budget) {
  if (files.mkdir(directory, kFolderMode) != 0 && errno != EEXIST)
    return fail(os_error(directory, "create", errno));
  std::unique_ptr<Partials> partials(new Partials(std::move(directory), files, std::move(budget)));
  if (Status taken = partials->take_over(); !taken) return fail(taken.error());
  return partials;
}

std::string Partials::path_of(const BlobHash& hash, const char* ending) const {
  return directory_ + "/" + to_hex(hash) + ending;
}

Status Partials::take_over() {
  const Result<std::vector<BlobHash>> hashes = leftovers_in(directory_);
  if (!hashes) return fail(hashes.error());
  for (const BlobHash& hash : *hashes) take_over_one(hash);
  return {};
}

void Partials::take_over_one(const BlobHash& hash) {
  const Result<PartMap> map = read_part_map(files_, path_of(hash, ".map"));
  const Result<FileReader> bytes = FileReader::open(files_, path_of(hash, ".part"));
  const bool is_usable = map && bytes && !map->ranges.empty() &&
                         std::prev(map->ranges.end())->second <= bytes->size_bytes();
  if (is_usable) {
    const auto [it, is_new] = partials_.try_emplace(
        hash, Partial{.size_bytes = map->size_bytes, .reservation = Reservation(budget_)});
    it->second.ranges = map->ranges;
    if (it->second.reservation.grow(map->size_bytes)) {
      static_cast<void>(close(hash, work::Leftover::kept));
      return;
    }
  }
  static_cast<void>(remove(hash));  // what cannot be removed is tried again at the next start
}

Status Partials::has_room_on_disk(std::uint64_t bytes) const {
  struct statvfs info {};

  if (::statvfs(directory_.c_str(), &info) != 0) return {};  // the writes will tell
  const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
  if (free >= kDiskReserveBytes && bytes <= free - kDiskReserveBytes) return {};
  return fail(ErrorCode::no_space, "disk",
              std::to_string(bytes) + " bytes do not fit: " + free_space_text(directory_) + ", " +
                  std::to_string(kDiskReserveBytes) + " are left alone");
}

std::map<BlobHash, Partials::Partial>::iterator Partials::oldest_kept() {
  auto oldest = partials_.end();
  for (auto it = partials_.begin(); it != partials_.end(); ++it) {
    if (it->second.is_open) continue;
    if (oldest == partials_.end() || it->second.closed_as < oldest->second.closed_as) oldest = it;
  }
  return oldest;
}

void Partials::make_room(std::uint64_t bytes) {
  while (!budget_->has_room_for(bytes) || !has_room_on_disk(bytes)) {
    const auto oldest = oldest_kept();
    if (oldest == partials_.end()) return;
    const BlobHash hash = oldest->first;
    static_cast<void>(remove(hash));
  }
}

Result<std::vector<work::ByteRange>> Partials::begin(const BlobHash& hash,
                                                     std::uint64_t size_bytes) {
  if (const auto it = partials_.find(hash);
      it != partials_.end() && it->second.size_bytes != size_bytes) {
    if (Status removed = remove(hash); !removed) return fail(removed.error());
  }
  auto it = partials_.find(hash);
  if (it == partials_.end()) {
    if (partials_.size() >= kPartialsOpenMax + kPartialsKeptMax)
      return fail(ErrorCode::busy, "store", "has too many partial blobs open");
    make_room(size_bytes);
    Partial made{.size_bytes = size_bytes, .reservation = Reservation(budget_)};
    if (Status room = made.reservation.grow(size_bytes); !room) return fail(room.error());
    it = partials_.emplace(hash, std::move(made)).first;
  }
  Partial& partial = it->second;
  partial.is_open = true;
  const std::uint64_t missing = size_bytes - bytes_in(partial.ranges);
  Status ready = has_room_on_disk(missing);
  if (!ready) {
    make_room(missing);
    ready = has_room_on_disk(missing);
  }
  if (ready) ready = open_files(hash, partial);
  if (!ready) {
    static_cast<void>(remove(hash));
    return fail(ready.error());
  }
  std::vector<work::ByteRange> there;
  for (const auto& [begin, end] : partial.ranges) there.push_back({begin, end});
  return there;
}

Status Partials::open_files(const BlobHash& hash, Partial& partial) {
  if (partial.bytes.is_open()) return {};
  const std::string path = path_of(hash, ".part");
  partial.bytes = Fd(files_.open(path, O_RDWR | O_CREAT | O_NOFOLLOW, kFileMode));
  if (!partial.bytes.is_open()) return fail(os_error(path, "create", errno));
  return write_map(hash, partial);
}

/// Anew, in as few records as there are ranges, and without whatever a kill cut short.
Status Partials::write_map(const BlobHash& hash, Partial& partial) {
  const std::string path = path_of(hash, ".map");
  partial.map = Fd(files_.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, kFileMode));
  if (!partial.map.is_open()) return fail(os_error(path, "create", errno));
  return write_all(partial.map.get(), path, format_part_map(partial.size_bytes, partial.ranges),
                   std::nullopt);
}

Status Partials::write_all(int fd, const std::string& path, std::span<const std::byte> bytes,
                           std::optional<std::uint64_t> offset) {
  while (!bytes.empty()) {
    const std::ptrdiff_t written = offset ? files_.pwrite(fd, bytes.data(), bytes.size(), *offset)
                                          : files_.write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(os_error(path, "write", errno));
    if (written == 0) return fail(os_error(path, "write", EIO));  // would be tried for ever
    if (offset) *offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Partials::Partial* Partials::find_open(const BlobHash& hash) {
  const auto it = partials_.find(hash);
  return it == partials_.end() || !it->second.is_open ? nullptr : &it->second;
}

void Partials::forget_hash(Partial& partial) {
  partial.hasher = crypto::Blake3();
  partial.hashed_to = 0;
}

Result<BlobHash> Partials::write(const BlobHash& hash, std::uint64_t offset,
                                 std::span<const std::byte> bytes) {
  Partial* partial = find_open(hash);
  if (partial == nullptr) return fail(not_open(hash));
  if (bytes.empty() || offset > partial->size_bytes || bytes.size() > partial->size_bytes - offset)
    return fail(ErrorCode::invalid_params, "piece", "is not inside the blob");
  const std::string path = path_of(hash, ".part");
  if (offset < partial->hashed_to) forget_hash(*partial);
  Status written = write_all(partial->bytes.get(), path, bytes, offset);
  if (!written) return fail(written.error());
  const std::uint64_t end = offset + bytes.size();
  add_range(partial->ranges, offset, end);
  written = write_all(partial->map.get(), path_of(hash, ".map"), format_part_range(offset, end),
                      std::nullopt);
  if (!written) return fail(written.error());
  if (offset == partial->hashed_to) {
    partial->hasher.update(bytes);
    partial->hashed_to = end;
  }
  const auto first = partial->ranges.begin();
  if (first->first == 0) {
    const std::uint64_t up_to = std::min(first->second, partial->hashed_to + kCatchUpBytesMax);
    // A failure to read shows again when the whole is checked.
    static_cast<void>(hash_up_to(hash, *partial, up_to));
  }
  return crypto::blake3(bytes);
}

Status Partials::hash_up_to(const BlobHash& hash, Partial& partial, std::uint64_t end) {
  if (partial.hashed_to >= end) return {};
  const Result<FileReader> file = FileReader::open(files_, path_of(hash, ".part"));
  if (!file) return fail(file.error());
  std::vector<std::byte> chunk;
  while (partial.hashed_to < end) {
    chunk.resize(std::min<std::uint64_t>(end - partial.hashed_to, kHashChunkBytes));
    if (Status read = file->read_at(partial.hashed_to, chunk); !read) return read;
    partial.hasher.update(std::span<const std::byte>(chunk));
    partial.hashed_to += chunk.size();
  }
  return {};
}

Result<bool> Partials::is_intact(const BlobHash& hash) {
  Partial* partial = find_open(hash);
  if (partial == nullptr) return fail(not_open(hash));
  if (bytes_in(partial->ranges) != partial->size_bytes)
    return fail(ErrorCode::invalid_params, "partial blob " + to_hex(hash), "has pieces missing");
  if (Status hashed = hash_up_to(hash, *partial, partial->size_bytes); !hashed)
    return fail(hashed.error());
  return partial->hasher.digest() == hash;
}

Result<Partials::Whole> Partials::take(const BlobHash& hash) {
  if (find_open(hash) == nullptr) return fail(not_open(hash));
  auto partial = partials_.extract(hash);
  static_cast<void>(files_.unlink(path_of(hash, ".map")));  // removed at the next start otherwise
  return Whole{path_of(hash, ".part"), std::move(partial.mapped().bytes),
               std::move(partial.mapped().reservation)};
}

Status Partials::close(const BlobHash& hash, work::Leftover leftover) {
  const auto it = partials_.find(hash);
  if (it == partials_.end()) return {};
  if (leftover == work::Leftover::removed || it->second.ranges.empty()) return remove(hash);
  Partial& partial = it->second;
  partial.is_open = false;
  partial.closed_as = ++closed_;
  partial.bytes.close();
  partial.map.close();
  forget_hash(partial);
  const auto kept = std::count_if(partials_.begin(), partials_.end(),
                                  [](const auto& entry) { return !entry.second.is_open; });
  if (static_cast<std::size_t>(kept) <= kPartialsKeptMax) return {};
  const BlobHash oldest = oldest_kept()->first;
  return remove(oldest);
}

Status Partials::remove(const BlobHash& hash) {
  partials_.erase(hash);
  Status removed;
  for (const char* ending : {".map", ".part"}) {
    const std::string path = path_of(hash, ending);
    if (files_.unlink(path) != 0 && errno != ENOENT && removed)
      removed = fail(os_error(path, "remove", errno));
  }
  return removed;
}

}  // namespace tenzro::store
