#include "files.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "format.hpp"

namespace tenzro::cli {
namespace {

tl::unexpected<Failure> file_failure(const std::string& path, const std::string& why) {
  return failure(ExitCode::usage, path + ": " + why);
}

}  // namespace

Outcome<std::uint64_t> file_size(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return file_failure(path, "is a directory");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return file_failure(path, error.message());
  return size;
}

Outcome<std::string> read_file(const std::string& path, std::uint64_t bytes_max) {
  const Outcome<std::uint64_t> size = file_size(path);
  if (!size) return failure(size.error());
  if (*size > bytes_max) {
    return file_failure(path, "has " + std::to_string(*size) + " bytes; at most " +
                                  bytes_text(bytes_max) + " can be sent");
  }
  std::string bytes(static_cast<std::size_t>(*size), '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in || static_cast<std::uint64_t>(in.gcount()) != *size) {
    return file_failure(path, "cannot be read");
  }
  return bytes;
}

Outcome<void> write_file(const std::string& path, std::string_view bytes) {
  std::error_code ignored;
  // A device or a pipe is written to, never replaced; behind a symbolic link it is the file that
  // is.
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    return out ? Outcome<void>() : file_failure(path, "cannot be written");
  }
  std::filesystem::path target = std::filesystem::canonical(path, ignored);
  if (ignored) target = path;
  const std::string beside = target.string() + ".part";
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      std::remove(beside.c_str());
      return file_failure(path, "cannot be written");
    }
  }
  std::error_code error;
  std::filesystem::rename(beside, target, error);
  if (error) {
    std::remove(beside.c_str());
    return file_failure(path, error.message());
  }
  return {};
}

}  // namespace tenzro::cli
