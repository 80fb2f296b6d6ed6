#include "sources.hpp"

#include <algorithm>
#include <climits>
#include <string_view>

#include "tenzro/base/bytes.hpp"

#include "file_reader.hpp"

namespace tenzro::store {
namespace {

bool leaves_root(std::string_view file) {
  if (file.starts_with('/')) return true;
  for (std::size_t begin = 0; begin <= file.size();) {
    const std::size_t end = std::min(file.find('/', begin), file.size());
    if (file.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

Result<std::string> path_of(const std::string& root, const std::string& file) {
  const auto refuse = [&file](const char* why) {
    return fail(ErrorCode::invalid_params, "source file '" + echo(file) + "'", why);
  };
  if (root.empty()) return fail(ErrorCode::invalid_params, "source", "has no directory");
  if (file.empty()) return refuse("has no name");
  if (leaves_root(file)) return refuse("leaves the source directory");
  if (root.size() + file.size() + 2 > PATH_MAX) return refuse("has too long a path");
  // The system would read up to the NUL and no further: another name than the one that was checked.
  if (file.find('\0') != std::string::npos || root.find('\0') != std::string::npos) {
    return refuse("has a NUL in its path");
  }
  return root + "/" + file;
}

}  // namespace

Result<work::ReadBytes> read_source(FileSystem& files, const work::ReadSource& source,
                                    std::uint64_t bytes_max) {
  const Result<std::string> path = path_of(source.root, source.file);
  if (!path) return fail(path.error());
  const Result<FileReader> file = FileReader::open(files, *path);
  if (!file) return fail(file.error());
  if (!source.version.empty() && source.version != file->version()) {
    return fail(ErrorCode::io, echo(*path), "was changed since it was first read");
  }
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
  return work::ReadBytes{
      .bytes = std::move(*bytes), .file_bytes = size, .version = file->version()};
}

}  // namespace tenzro::store
