#include "temp_file.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>

#include "os_error.hpp"

namespace tenzro::store {
namespace {
/// One write call takes at most this; Linux itself stops a little below 2 GiB.
constexpr std::size_t kWriteBytesMax = std::size_t{1} << 30U;
}  // namespace

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status sync_folder(FileSystem& files, const std::string& path) {
  const Fd folder(files.open(path, O_RDONLY | O_DIRECTORY, 0));
  if (!folder.is_open()) return fail(os_error(path, "open the folder", errno));
  // EINVAL: a file system that has no such thing, and orders its renames itself.
  if (files.fsync(folder.get()) != 0 && errno != EINVAL) {
    return fail(os_error(path, "sync the folder", errno));
  }
  return {};
}

Result<TempFile> TempFile::create(FileSystem& files, std::string path, unsigned mode) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  int fd = files.open(path, flags, mode);
  if (fd < 0 && errno == EEXIST && files.unlink(path) == 0) fd = files.open(path, flags, mode);
  if (fd < 0) return fail(os_error(path, "create", errno));
  return TempFile(files, std::move(path), Fd(fd));
}

TempFile::TempFile(TempFile&& other) noexcept
    : files_(other.files_),
      path_(std::exchange(other.path_, std::string())),
      fd_(std::move(other.fd_)) {}

TempFile::~TempFile() {
  // A failure leaves a file that the next start removes.
  if (!path_.empty()) static_cast<void>(files_->unlink(path_));
}

Status TempFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t step = std::min(bytes.size(), kWriteBytesMax);
    const std::ptrdiff_t written = files_->write(fd_.get(), bytes.data(), step);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(os_error(path_, "write", errno));
    if (written == 0) return fail(os_error(path_, "write", EIO));  // would be tried for ever
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status TempFile::commit_as(const std::string& target) {
  // Never tried twice: after a failed fsync the kernel may count the lost pages as clean.
  if (files_->fsync(fd_.get()) != 0) return fail(os_error(path_, "sync", errno));
  fd_.close();
  if (files_->rename(path_, target) != 0) return fail(os_error(target, "rename into place", errno));
  path_.clear();
  return sync_folder(*files_, folder_of(target));
}

}  // namespace tenzro::store
