#pragma once
/// \file
/// The small patterns that rows of families are written in: alternatives "a|b" and places "{L}".
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenzro::prepare {

/// "a|b" -> a, b. Nothing for an empty pattern.
[[nodiscard]] std::vector<std::string_view> alternatives(std::string_view pattern);
[[nodiscard]] bool is_one_of(std::string_view word, std::string_view pattern);
/// `pattern` with every `place` ("{L}") replaced by the number.
[[nodiscard]] std::string filled(std::string_view pattern, std::string_view place,
                                 std::uint64_t number);

}  // namespace tenzro::prepare
