#include "directory_lock.hpp"

#include <cerrno>
#include <span>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "os_error.hpp"
#include "temp_file.hpp"

namespace tenzro::store {
namespace {

constexpr std::size_t kPidTextMax = 20;

/// The process id in a lock file, or "unknown" where it has none yet.
std::string owner_of(int fd) {
  char text[kPidTextMax];
  const ssize_t size = ::pread(fd, text, sizeof(text), 0);
  std::string pid;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i) pid += text[i];
  return pid.empty() ? "unknown" : pid;
}

/// A sentence an operator reads on the way down.
Error unusable(const std::string& what, std::string_view doing, int error) {
  const Error system = os_error(what, doing, error);
  // Not not_found: nobody asked for something that may be absent.
  const ErrorCode code = system.code == ErrorCode::not_found ? ErrorCode::io : system.code;
  return {code, "", what + " " + system.detail};
}

}  // namespace

Result<DirectoryLock> DirectoryLock::acquire(FileSystem& files, const std::string& directory,
                                             const std::string& what) {
  Fd fd(files.open(directory + "/lock", O_RDWR | O_CREAT, 0600));
  if (!fd.is_open()) return fail(unusable(what, "be written", errno));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail(unusable(what, "be locked", errno));
    return fail(ErrorCode::busy, "",
                what + " is in use by another process (pid " + owner_of(fd.get()) +
                    "); stop it, or choose another directory");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  // Only for the text above: a full disk is told by whoever has something to lose.
  if (::ftruncate(fd.get(), 0) == 0) {
    static_cast<void>(::pwrite(fd.get(), pid.data(), pid.size(), 0));
  }
  return DirectoryLock(std::move(fd));
}

Status make_directory(FileSystem& files, const std::string& directory, const std::string& what) {
  if (directory.empty()) return fail(ErrorCode::invalid_params, "", what + " has no name");
  std::size_t end = 0;
  while (end != std::string::npos) {
    end = directory.find('/', end + 1);
    const std::string part = directory.substr(0, end);
    const bool is_last = end == std::string::npos || end + 1 == directory.size();
    if (files.mkdir(part, is_last ? 0700 : 0755) == 0) {
      if (Status synced = sync_folder(files, folder_of(part)); !synced) return synced;
    } else if (errno != EEXIST) {
      return fail(unusable(what, "be created", errno));
    }
    if (is_last) break;
  }
  return {};
}

}  // namespace tenzro::store
