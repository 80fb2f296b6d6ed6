#pragma once
/// \file
/// What a file that should be JSON is instead, where that can be told.
#include <optional>
#include <string>
#include <string_view>

namespace tenzro::prepare {

[[nodiscard]] inline std::optional<std::string> foreign_file(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const std::string_view start = first == std::string_view::npos ? "" : text.substr(first);
  if (start.starts_with('<')) return "the file is an HTML page";
  if (start.starts_with("version https://git-lfs"))
    return "the file is a git LFS pointer, not the data it names";
  return std::nullopt;
}

}  // namespace tenzro::prepare
