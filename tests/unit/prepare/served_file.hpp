#pragma once
/// \file
/// A file behind HTTP: a whole answer to what is asked for.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "tenzro/work/download.hpp"

namespace tenzro::testing {

inline work::Downloaded serve_file(const std::string& path, const work::Download& download) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {.status = 404};
  const auto size = static_cast<std::uint64_t>(in.tellg());
  if (download.offset >= size) return {.status = 416, .file_bytes = size};
  const std::uint64_t length =
      std::min<std::uint64_t>(download.room.size(), size - download.offset);
  std::string bytes(length, '\0');
  in.seekg(static_cast<std::streamoff>(download.offset));
  in.read(bytes.data(), static_cast<std::streamsize>(length));
  std::memcpy(download.room.data(), bytes.data(), length);
  return {.status = 206,
          .received = static_cast<std::size_t>(length),
          .first = download.offset,
          .file_bytes = size,
          .version = "\"1\""};
}

/// The file that the URL ends with, of a folder.
inline work::Downloaded serve(const std::string& folder, const work::Download& download) {
  return serve_file(folder + "/" + download.url.substr(download.url.rfind('/') + 1), download);
}

}  // namespace tenzro::testing
