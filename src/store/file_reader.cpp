#include "file_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"

#include "os_error.hpp"

namespace tenzro::store {
namespace {

/// One read call takes at most this. Larger ones wait for all of it and copy then; so the system
/// reads on while this much is copied.
constexpr std::size_t kReadBytesMax = std::size_t{256} << 10U;

Error not_regular(const std::string& name) {
  return {ErrorCode::io, echo(name), "is not a regular file"};
}

std::string version_of(const struct stat& info) {
  return std::to_string(info.st_ino) + "-" + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

/// With the time of the last change of the file's state: no program can set that back.
work::FileMark mark_of(const struct stat& info) {
  const std::string all = version_of(info) + "-" + std::to_string(info.st_size) + "-" +
                          std::to_string(info.st_dev) + "-" + std::to_string(info.st_ctim.tv_sec) +
                          "." + std::to_string(info.st_ctim.tv_nsec);
  const Hash32 hash = crypto::blake3(all);
  work::FileMark mark = 0;
  std::memcpy(&mark, hash.data(), sizeof mark);
  return mark == 0 ? 1 : mark;
}

}  // namespace

Result<FileReader> FileReader::open(FileSystem& files, const std::string& path,
                                    const std::string& name) {
  const std::string& called = name.empty() ? path : name;

  struct stat info {};

  if (::stat(path.c_str(), &info) != 0) return fail(os_error(called, "open", errno));
  if (!S_ISREG(info.st_mode)) return fail(not_regular(called));
  Fd fd(files.open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0));
  if (!fd.is_open()) return fail(os_error(called, "open", errno));
  if (::fstat(fd.get(), &info) != 0) return fail(os_error(called, "inspect", errno));
  if (!S_ISREG(info.st_mode)) return fail(not_regular(called));
  return FileReader(files, called, std::move(fd), info);
}

FileReader::FileReader(FileSystem& files, std::string name, Fd fd, const struct stat& info)
    : files_(&files),
      name_(std::move(name)),
      fd_(std::move(fd)),
      size_bytes_(static_cast<std::uint64_t>(info.st_size)),
      version_(version_of(info)),
      mark_(mark_of(info)) {}

work::FileMark FileReader::mark_at(const std::string& path) {
  struct stat info {};

  return ::stat(path.c_str(), &info) == 0 ? mark_of(info) : 0;
}

Status FileReader::read_at(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const std::size_t step = std::min(to.size(), kReadBytesMax);
    const std::ptrdiff_t got = files_->pread(fd_.get(), to.data(), step, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Error error = os_error(name_, "read", errno);
      // The file is there, so it is not not_found, whatever the number says.
      if (error.code != ErrorCode::busy) error.code = ErrorCode::io;
      return fail(std::move(error));
    }
    if (got == 0) return fail(ErrorCode::io, echo(name_), "became shorter while it was read");
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

void FileReader::expect_whole_read() const {
  static_cast<void>(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL));
}

Result<BufferRef> FileReader::read(std::uint64_t offset, std::uint64_t length) const {
  TENZRO_ASSERT(offset <= size_bytes_);
  TENZRO_ASSERT(length <= size_bytes_ - offset);
  if (length == 0) return BufferRef();
  BufferRef buffer = BufferRef::allocate(length);
  if (Status read = read_at(offset, buffer.mutable_bytes()); !read) return fail(read.error());
  return buffer;
}

}  // namespace tenzro::store
