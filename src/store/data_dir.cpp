#include "tenzro/store/data_dir.hpp"

#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"

#include "directory_lock.hpp"
#include "os_error.hpp"
#include "temp_file.hpp"

namespace tenzro::store {

struct DataDir::State {
  std::string path;
  FileSystem& files;
  DirectoryLock lock;
  std::vector<std::string> warnings;
};

namespace {

std::string temp_name_of(std::string_view name) {
  return "." + std::string(name) + ".tmp";
}

/// What write_file left behind when its process was killed.
Status remove_leftovers(FileSystem& files, const std::string& path) {
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') || !name.ends_with(".tmp")) continue;
    const std::string leftover = path + "/" + name;
    if (files.unlink(leftover) != 0) return fail(os_error(leftover, "remove", errno));
  }
  if (error) return fail(os_error(path, "list", error.value()));
  return {};
}

std::vector<std::string> warnings_about(const std::string& path) {
  struct stat info {};

  if (::stat(path.c_str(), &info) != 0 || (info.st_mode & 077U) == 0) return {};
  return {"data directory '" + echo(path) +
          "' can be entered by others; chmod 700 would stop that"};
}

}  // namespace

Result<DataDir> DataDir::open(const std::string& path, FileSystem& files) {
  const std::string what = "data directory '" + echo(path) + "'";
  if (Status made = make_directory(files, path, what); !made) return fail(made.error());
  Result<DirectoryLock> lock = DirectoryLock::acquire(files, path, what);
  if (!lock) return fail(lock.error());
  if (Status cleaned = remove_leftovers(files, path); !cleaned) return fail(cleaned.error());
  return DataDir(std::unique_ptr<State>(new State{
      .path = path, .files = files, .lock = std::move(*lock), .warnings = warnings_about(path)}));
}

DataDir::DataDir(std::unique_ptr<State> state) : state_(std::move(state)) {}

DataDir::DataDir(DataDir&&) noexcept = default;
DataDir& DataDir::operator=(DataDir&&) noexcept = default;
DataDir::~DataDir() = default;

const std::string& DataDir::path() const {
  return state_->path;
}

std::string DataDir::path_of(std::string_view name) const {
  return state_->path + "/" + std::string(name);
}

FileSystem& DataDir::files() const {
  return state_->files;
}

const std::vector<std::string>& DataDir::warnings() const {
  return state_->warnings;
}

Status DataDir::write_file(std::string_view name, std::string_view bytes, unsigned mode) {
  TENZRO_ASSERT(name.find('/') == std::string_view::npos);
  Result<TempFile> file = TempFile::create(state_->files, path_of(temp_name_of(name)), mode);
  if (!file) return fail(file.error());
  if (Status written = file->append(std::as_bytes(std::span(bytes))); !written) return written;
  return file->commit_as(path_of(name));
}

Status DataDir::remove_file(std::string_view name) {
  TENZRO_ASSERT(name.find('/') == std::string_view::npos);
  const std::string path = path_of(name);
  if (state_->files.unlink(path) == 0 || errno == ENOENT) return {};
  return fail(os_error(path, "remove", errno));
}

}  // namespace tenzro::store
