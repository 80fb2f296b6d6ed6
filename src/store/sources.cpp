#include "sources.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>

#include <sys/stat.h>

#include "tenzro/base/bytes.hpp"

#include "file_reader.hpp"
#include "os_error.hpp"

namespace tenzro::store {
namespace {

enum class IfEmpty : std::uint8_t { refuse, root };

bool leaves_root(std::string_view file) {
  if (file.starts_with('/')) return true;
  for (std::size_t begin = 0; begin <= file.size();) {
    const std::size_t end = std::min(file.find('/', begin), file.size());
    if (file.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

Result<std::string> path_of(const std::string& root, const std::string& file, IfEmpty if_empty) {
  const auto refuse = [&file](const char* why) {
    return fail(ErrorCode::invalid_params, "source file '" + echo(file) + "'", why);
  };
  if (root.empty()) return fail(ErrorCode::invalid_params, "source", "has no directory");
  if (file.empty() && if_empty == IfEmpty::refuse) return refuse("has no name");
  if (leaves_root(file)) return refuse("leaves the source directory");
  if (root.size() + file.size() + 2 > PATH_MAX) return refuse("has too long a path");
  // The system would read up to the NUL and no further: another name than the one that was checked.
  if (file.find('\0') != std::string::npos || root.find('\0') != std::string::npos) {
    return refuse("has a NUL in its path");
  }
  return file.empty() ? root : root + "/" + file;
}

}  // namespace

Result<work::ReadBytes> read_source(FileSystem& files, const work::ReadSource& source,
                                    std::uint64_t bytes_max) {
  const Result<std::string> path = path_of(source.root, source.file, IfEmpty::refuse);
  if (!path) return fail(path.error());
  const Result<FileReader> file = FileReader::open(files, *path);
  if (!file) return fail(file.error());
  const std::uint64_t size = file->size_bytes();
  const std::uint64_t there = source.offset < size ? size - source.offset : 0;
  if (source.length > there && !source.allow_short) {
    return fail(ErrorCode::io, echo(*path),
                "is too short: " + std::to_string(source.length) + " bytes at offset " +
                    std::to_string(source.offset) + " are wanted, it has " + std::to_string(size));
  }
  const std::uint64_t length = std::min(source.length, there);
  if (length > bytes_max) {
    return fail(ErrorCode::invalid_params, echo(*path),
                std::to_string(length) + " bytes are wanted at once, at most " +
                    std::to_string(bytes_max) + " are read");
  }
  Result<BufferRef> bytes = file->read(length == 0 ? 0 : source.offset, length);
  if (!bytes) return fail(bytes.error());
  return work::ReadBytes{std::move(*bytes)};
}

Result<work::SourceStat> stat_source(const work::StatSource& source) {
  const Result<std::string> path = path_of(source.root, source.file, IfEmpty::root);
  if (!path) return fail(path.error());

  struct stat info {};

  if (::stat(path->c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return work::SourceStat{};
    return fail(os_error(*path, "inspect", errno));
  }
  work::SourceStat result{.exists = true, .is_directory = S_ISDIR(info.st_mode), .size_bytes = 0};
  if (!result.is_directory && !S_ISREG(info.st_mode)) {
    return fail(ErrorCode::io, echo(*path), "is not a regular file");
  }
  if (!result.is_directory) result.size_bytes = static_cast<std::uint64_t>(info.st_size);
  return result;
}

}  // namespace tenzro::store
