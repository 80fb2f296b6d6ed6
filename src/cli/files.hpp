#pragma once
/// \file
/// Local files that a command line names. Failures are usage errors that name the file.
#include <cstdint>
#include <string>
#include <string_view>

#include "outcome.hpp"

namespace tenzro::cli {

[[nodiscard]] Outcome<std::uint64_t> file_size(const std::string& path);
[[nodiscard]] Outcome<std::string> read_file(const std::string& path, std::uint64_t bytes_max);
/// Written beside the file and renamed into place: an interrupted command leaves the old file.
[[nodiscard]] Outcome<void> write_file(const std::string& path, std::string_view bytes);

}  // namespace tenzro::cli
