#include "os_error.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/statvfs.h>

#include "tenzro/base/bytes.hpp"

namespace tenzro::store {
namespace {

ErrorCode code_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::no_space;
    case ENOENT:
      return ErrorCode::not_found;
    // The system is short of something for the moment: says nothing about the file.
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EINTR:
    case EAGAIN:
      return ErrorCode::busy;
    default:
      return ErrorCode::io;
  }
}

}  // namespace

std::string errno_text(int error) {
  const char* text = strerrordesc_np(error);
  return text != nullptr ? text : "error " + std::to_string(error);
}

std::string free_space_text(const std::string& path) {
  struct statvfs info {};

  const std::string folder = path.substr(0, path.rfind('/'));
  if (statvfs(path.c_str(), &info) != 0 && statvfs(folder.c_str(), &info) != 0) return {};
  const std::uint64_t unit = info.f_frsize;
  return std::to_string(info.f_bavail * unit) + " of " + std::to_string(info.f_blocks * unit) +
         " bytes are free";
}

Error os_error(const std::string& path, std::string_view doing, int error) {
  Error result{.code = code_of(error),
               .where = echo(path),
               .detail = "cannot " + std::string(doing) + ": " + errno_text(error)};
  if (result.code != ErrorCode::no_space) return result;
  const std::string free = free_space_text(path);
  if (!free.empty()) result.detail += " (" + free + ")";
  return result;
}

}  // namespace tenzro::store
