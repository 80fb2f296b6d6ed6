#pragma once
/// \file
/// Where a TOML text holds characters beyond ASCII.
#include <cstddef>
#include <optional>
#include <string_view>

namespace tenzro::config {

/// Where the first byte beyond ASCII is that stands neither in a comment nor in a string, or
/// that follows a backslash in one, or anything that is not TOML; nothing where there is none. TOML
/// has a place for such a byte only after a backslash that ends a line. Why it is looked for before
/// parsing: toml++ 3.3 runs into undefined behaviour where it looks at such a byte anywhere but in
/// a string or a comment, and it looks ahead.
[[nodiscard]] std::optional<std::size_t> find_stray_character(std::string_view toml);

}  // namespace tenzro::config
