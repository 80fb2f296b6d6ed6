#pragma once
/// \file
/// Where a TOML text holds characters beyond ASCII.
#include <cstddef>
#include <optional>
#include <string_view>

namespace tenzro::config {

/// The line of the first byte beyond ASCII that stands neither in a comment nor in a string that is
/// a key or a value, or that follows a backslash in one; nothing where there is none. TOML has a
/// place for such a byte only after a backslash that ends a line. Why it is looked for before
/// parsing: toml++ 3.3 runs into undefined behaviour there, and there too.
[[nodiscard]] std::optional<std::size_t> line_of_stray_character(std::string_view toml);

}  // namespace tenzro::config
