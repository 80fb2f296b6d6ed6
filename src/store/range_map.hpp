#pragma once
/// \file
/// Which ranges of a partial blob are there: the set, and its file (partials.hpp).
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/store/file_system.hpp"

namespace tenzro::store {

/// begin -> end; ranges do not touch one another.
using Ranges = std::map<std::uint64_t, std::uint64_t>;

void add_range(Ranges& ranges, std::uint64_t begin, std::uint64_t end);

struct PartMap {
  std::uint64_t size_bytes = 0;
  Ranges ranges;
};

[[nodiscard]] std::vector<std::byte> format_part_map(std::uint64_t size_bytes,
                                                     const Ranges& ranges);
[[nodiscard]] std::vector<std::byte> format_part_range(std::uint64_t begin, std::uint64_t end);
/// A record that is cut short ends the list; one that is not inside the blob refuses the file.
/// Error: not_found, io.
[[nodiscard]] Result<PartMap> read_part_map(FileSystem& files, const std::string& path);

}  // namespace tenzro::store
