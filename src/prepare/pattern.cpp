#include "pattern.hpp"

#include <algorithm>

namespace tenzro::prepare {

std::vector<std::string_view> alternatives(std::string_view pattern) {
  std::vector<std::string_view> found;
  while (!pattern.empty()) {
    const std::size_t bar = pattern.find('|');
    found.push_back(pattern.substr(0, bar));
    pattern.remove_prefix(bar == std::string_view::npos ? pattern.size() : bar + 1);
  }
  return found;
}

bool is_one_of(std::string_view word, std::string_view pattern) {
  const auto all = alternatives(pattern);
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string filled(std::string_view pattern, std::string_view place, std::uint64_t number) {
  std::string text(pattern);
  const std::string with = std::to_string(number);
  for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at)) {
    text.replace(at, place.size(), with);
    at += with.size();
  }
  return text;
}

}  // namespace tenzro::prepare
