#include "blob_files.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <tuple>
#include <utility>

#include <sys/stat.h>

#include "tenzro/base/bytes.hpp"

#include "os_error.hpp"

namespace tenzro::store {
namespace {

constexpr unsigned kFolderMode = 0700;
constexpr unsigned kFileMode = 0600;
constexpr std::size_t kVerifyChunkBytes = std::size_t{1} << 20U;

std::string folder_name(std::uint8_t first_byte) {
  return to_hex(std::span(&first_byte, 1));
}

Status remove_file(FileSystem& files, const std::string& path) {
  if (files.unlink(path) != 0 && errno != ENOENT) return fail(os_error(path, "remove", errno));
  return {};
}

/// Names in a folder, none where there is no such folder. It is ours, so their number is that of
/// our files.
Result<std::vector<std::string>> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(os_error(path, "list", error.value()));
  }
  return names;
}

/// A full disk is told with what did not fit on it.
Error about_size(Error error, std::size_t size_bytes) {
  if (error.code == ErrorCode::no_space)
    error.where = "blob of " + std::to_string(size_bytes) + " bytes";
  return error;
}

/// A blob's file, as long as somebody reads it.
class FileSource final : public compute::WeightSource {
 public:
  explicit FileSource(FileReader file) : file_(std::move(file)) {}

  [[nodiscard]] std::uint64_t size_bytes() const override { return file_.size_bytes(); }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    return file_.read_at(offset, to);
  }

 private:
  FileReader file_;
};

}  // namespace

Status BlobWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > bytes_max_ - size_bytes()) {
    return fail(ErrorCode::no_space, "blob",
                "is larger than the " + std::to_string(bytes_max_) + " bytes a blob may have");
  }
  if (Status room = reservation_.grow(bytes.size()); !room) return room;
  hasher_.update(bytes);
  return file_.append(bytes);
}

BlobFiles::BlobFiles(const Options& options, FileSystem& files, DirectoryLock lock)
    : options_(options),
      files_(files),
      lock_(std::move(lock)),
      budget_(std::make_shared<DiskBudget>(options.budget_bytes)) {}

Result<std::unique_ptr<BlobFiles>> BlobFiles::open(const Options& options, FileSystem& files) {
  const std::string what = "blob directory '" + echo(options.directory) + "'";
  if (Status made = make_directory(files, options.directory, what); !made)
    return fail(made.error());
  Result<DirectoryLock> lock = DirectoryLock::acquire(files, options.directory, what);
  if (!lock) return fail(lock.error());
  std::unique_ptr<BlobFiles> blobs(new BlobFiles(options, files, std::move(*lock)));
  for (const char* name : {"tmp", "quarantine"}) {
    if (Status made = blobs->make_folder(name); !made) return fail(made.error());
  }
  if (Status emptied = blobs->empty_tmp(); !emptied) return fail(emptied.error());
  return blobs;
}

Status BlobFiles::make_folder(const std::string& name) {
  const std::string path = options_.directory + "/" + name;
  if (files_.mkdir(path, kFolderMode) != 0 && errno != EEXIST)
    return fail(os_error(path, "create", errno));
  return {};
}

Status BlobFiles::empty_tmp() {
  const std::string prefix = options_.directory + "/tmp/";
  const Result<std::vector<std::string>> names = names_in(prefix);
  if (!names) return fail(names.error());
  for (const std::string& name : *names) {
    if (Status removed = remove_file(files_, prefix + name); !removed) return removed;
  }
  return {};
}

Result<std::vector<BlobHash>> BlobFiles::list(std::uint8_t first_byte) const {
  const Result<std::vector<std::string>> names =
      names_in(options_.directory + "/" + folder_name(first_byte));
  if (!names) return fail(names.error());
  std::vector<BlobHash> hashes;
  for (const std::string& name : *names) {
    const std::optional<Hash32> hash = hash_from_hex(name);
    if (hash && (*hash)[0] == first_byte) hashes.push_back(*hash);
  }
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

std::string BlobFiles::path_of(const BlobHash& hash) const {
  return options_.directory + "/" + folder_name(hash[0]) + "/" + to_hex(hash);
}

Result<FileReader> BlobFiles::open_file(const BlobHash& hash) const {
  const std::string name = "blob " + to_hex(hash);
  Result<FileReader> file = FileReader::open(files_, path_of(hash), name);
  if (!file && file.error().code == ErrorCode::not_found)
    return fail(ErrorCode::not_found, name, "is not in this node's store");
  return file;
}

std::string BlobFiles::next_temp_path() {
  return options_.directory + "/tmp/" + std::to_string(temp_number_.fetch_add(1));
}

Status BlobFiles::put(const BlobHash& hash, std::span<const std::byte> bytes, Counted counted) {
  if (bytes.size() > options_.blob_bytes_max) {
    return fail(ErrorCode::no_space, "blob",
                "of " + std::to_string(bytes.size()) + " bytes is larger than the " +
                    std::to_string(options_.blob_bytes_max) + " bytes a blob may have");
  }
  Reservation reservation(budget_);
  if (counted == Counted::no) {
    if (Status room = reservation.grow(bytes.size()); !room) return room;
  }
  if (Status made = make_folder_of(hash); !made) return made;
  if (!is_intact(hash).value_or(false)) {
    Result<TempFile> file = TempFile::create(files_, next_temp_path(), kFileMode);
    if (!file) return fail(file.error());
    if (Status written = file->append(bytes); !written) {
      return fail(about_size(written.error(), bytes.size()));
    }
    if (Status committed = file->commit_as(path_of(hash)); !committed) return committed;
  } else if (Status synced = sync_folder(files_, folder_of(path_of(hash))); !synced) {
    return synced;
  }
  reservation.keep();
  return {};
}

Status BlobFiles::put(BlobWriter writer, Counted counted) {
  const BlobHash hash = writer.hash();
  if (Status made = make_folder_of(hash); !made) return made;
  if (is_intact(hash).value_or(false)) {
    if (Status synced = sync_folder(files_, folder_of(path_of(hash))); !synced) return synced;
  } else if (Status committed = writer.file_.commit_as(path_of(hash)); !committed) {
    return committed;
  }
  if (counted == Counted::no) writer.reservation_.keep();
  return {};
}

Status BlobFiles::adopt(const BlobHash& hash, const std::string& path, Fd file) {
  if (Status made = make_folder_of(hash); !made) return made;
  // Never tried twice: after a failed fsync the kernel may count the lost pages as clean.
  if (files_.fsync(file.get()) != 0) return fail(os_error(path, "sync", errno));
  file.close();
  const std::string target = path_of(hash);
  if (files_.rename(path, target) != 0) return fail(os_error(target, "rename into place", errno));
  return sync_folder(files_, folder_of(target));
}

Status BlobFiles::make_folder_of(const BlobHash& hash) {
  if (durable_folders_[hash[0]]) return {};
  if (Status made = make_folder(folder_name(hash[0])); !made) return made;
  // Also where it was there: whoever made it may have been killed before this.
  if (Status synced = sync_folder(files_, options_.directory); !synced) return synced;
  durable_folders_[hash[0]] = true;
  return {};
}

Status BlobFiles::remove(const BlobHash& hash, std::uint64_t size_bytes) {
  if (Status removed = remove_uncounted(hash); !removed) return removed;
  budget_->give_back(size_bytes);
  return {};
}

Status BlobFiles::remove_uncounted(const BlobHash& hash) {
  return remove_file(files_, path_of(hash));
}

Status BlobFiles::remove_path(const std::string& path) {
  return remove_file(files_, path);
}

Status BlobFiles::quarantine(const BlobHash& hash, std::uint64_t size_bytes) {
  const std::string from = path_of(hash);
  const std::string to = options_.directory + "/quarantine/" + to_hex(hash);
  if (files_.rename(from, to) != 0 && errno != ENOENT)
    return fail(os_error(from, "quarantine", errno));
  budget_->give_back(size_bytes);
  if (Status synced = sync_folder(files_, folder_of(from)); !synced) return synced;
  return trim_quarantine();
}

Status BlobFiles::trim_quarantine() {
  const std::string prefix = options_.directory + "/quarantine/";
  const Result<std::vector<std::string>> names = names_in(prefix);
  if (!names) return fail(names.error());
  // A rename touches the change time: that is when a blob came here.
  std::vector<std::tuple<std::int64_t, std::int64_t, std::string>> by_age;
  for (const std::string& name : *names) {
    struct stat info {};

    if (::stat((prefix + name).c_str(), &info) != 0) continue;
    by_age.emplace_back(info.st_ctim.tv_sec, info.st_ctim.tv_nsec, name);
  }
  std::sort(by_age.begin(), by_age.end());
  for (std::size_t i = 0; i + kQuarantineFilesMax < by_age.size(); ++i) {
    if (Status removed = remove_file(files_, prefix + std::get<2>(by_age[i])); !removed)
      return removed;
  }
  return {};
}

Result<BlobWriter> BlobFiles::begin() {
  Result<TempFile> file = TempFile::create(files_, next_temp_path(), kFileMode);
  if (!file) return fail(file.error());
  return BlobWriter(std::move(*file), Reservation(budget_), options_.blob_bytes_max);
}

bool BlobFiles::exists(const BlobHash& hash) const {
  return size(hash).has_value();
}

Result<bool> BlobFiles::is_intact(const BlobHash& hash) const {
  const Result<FileReader> file = open_file(hash);
  if (!file && file.error().code == ErrorCode::busy) return fail(file.error());
  if (!file) return false;
  crypto::Blake3 hasher;
  std::vector<std::byte> chunk(kVerifyChunkBytes);
  for (std::uint64_t offset = 0; offset < file->size_bytes(); offset += chunk.size()) {
    const std::uint64_t left = file->size_bytes() - offset;
    chunk.resize(std::min<std::uint64_t>(left, kVerifyChunkBytes));
    if (Status read = file->read_at(offset, chunk); !read) {
      if (read.error().code == ErrorCode::busy) return fail(read.error());
      return false;
    }
    hasher.update(std::span<const std::byte>(chunk));
  }
  return hasher.digest() == hash;
}

Result<std::uint64_t> BlobFiles::size(const BlobHash& hash) const {
  const Result<FileReader> file = open_file(hash);
  if (!file) return fail(file.error());
  return file->size_bytes();
}

Result<std::shared_ptr<ArrivingFile>> BlobFiles::begin_read(const work::ReadBlob& wanted) const {
  const BlobHash& hash = wanted.hash;
  const std::uint64_t bytes_max = wanted.bytes_max;
  Result<FileReader> file = open_file(hash);
  if (!file) return fail(file.error());
  if (bytes_max != 0 && file->size_bytes() > bytes_max) {
    return fail(ErrorCode::infrastructure, "",
                "the blob has " + std::to_string(file->size_bytes()) + " bytes, more than the " +
                    std::to_string(bytes_max) + " of one reply: use GET /blob/");
  }
  if (file->size_bytes() > options_.blob_bytes_max) {
    return fail(ErrorCode::io, "blob " + to_hex(hash), "has more bytes than a blob may have");
  }
  if (wanted.whole_bytes_max != 0 && file->size_bytes() > wanted.whole_bytes_max) return nullptr;
  file->expect_whole_read();
  return std::make_shared<ArrivingFile>(std::move(*file));
}

Result<work::OpenedBlob> BlobFiles::open_blob(const BlobHash& hash) const {
  Result<FileReader> file = open_file(hash);
  if (!file) return fail(file.error());
  const work::FileMark mark = file->mark();
  return work::OpenedBlob{std::make_shared<FileSource>(std::move(*file)), mark};
}

work::FileMark BlobFiles::mark_of(const BlobHash& hash) const {
  return FileReader::mark_at(path_of(hash));
}

Result<BufferRef> BlobFiles::read_range(const BlobHash& hash, std::uint64_t offset,
                                        std::uint64_t length) const {
  Result<work::BlobRange> range = read_part({hash, offset, length});
  if (!range) return fail(range.error());
  return std::move(range->bytes);
}

Result<work::BlobRange> BlobFiles::read_part(const work::ReadBlobRange& range) const {
  const Result<FileReader> file = open_file(range.hash);
  if (!file) return fail(file.error());
  const std::uint64_t size = file->size_bytes();
  if (range.offset > size || range.length > size - range.offset) {
    return fail(ErrorCode::invalid_params, "range",
                "is not inside the " + std::to_string(size) + " bytes of the blob");
  }
  Result<BufferRef> bytes = file->read(range.offset, range.length);
  if (!bytes) return fail(bytes.error());
  return work::BlobRange{std::move(*bytes), size};
}

}  // namespace tenzro::store
