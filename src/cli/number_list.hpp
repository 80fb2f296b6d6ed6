#pragma once
/// \file
/// A flag that takes whole numbers with commas between them, like `0,3`.
///
/// Why not the parser's own lists: they drop an empty item, so that `2,,3` would mean `2,3`.
#include <charconv>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "format.hpp"

namespace tenzro::cli {

/// Decimal digits without leading zeros; a sign where T has one. False: `text` is no such list.
template <typename T>
[[nodiscard]] bool read_number_list(std::string_view text, std::vector<T>& out) {
  out.clear();
  for (;;) {
    const std::string_view item = text.substr(0, text.find(','));
    T value{};
    const auto read = std::from_chars(item.data(), item.data() + item.size(), value);
    if (read.ec != std::errc{} || read.ptr != item.data() + item.size()) return false;
    if (std::to_string(value) != item) return false;
    out.push_back(value);
    if (item.size() == text.size()) return true;
    text.remove_prefix(item.size() + 1);
  }
}

/// `out` lives as long as `command`.
template <typename T>
void add_number_list(CLI::App& command, const std::string& name, std::vector<T>& out,
                     const std::string& help) {
  const auto read = [name, &out](const std::string& text) {
    if (read_number_list(text, out)) return;
    throw CLI::ValidationError(name,
                               "'" + printable(text) + "' is not a list of whole numbers like 0,3");
  };
  command.add_option_function<std::string>(name, read, help)->type_name("N,N,...");
}

}  // namespace tenzro::cli
