#pragma once
/// \file
/// Where a TOML text holds characters beyond ASCII.
#include <cstddef>
#include <optional>
#include <string_view>

namespace tenzro::config {

/// The line of the first byte beyond ASCII that stands neither in a comment nor in a string that is
/// a key or a value; nothing where there is none. TOML has no place for such a byte. Why it is
/// looked for before parsing: toml++ 3.3 runs into undefined behaviour there.
[[nodiscard]] std::optional<std::size_t> line_of_stray_character(std::string_view toml);

}  // namespace tenzro::config
