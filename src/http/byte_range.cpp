#include "byte_range.hpp"

#include <algorithm>
#include <charconv>

namespace tenzro::http {
namespace {

/// Decimal digits only; a number above 64 bits is as good as the largest.
std::optional<std::uint64_t> number(std::string_view text) {
  const bool is_digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
  if (!is_digits) return std::nullopt;
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc{} ? value : UINT64_MAX;
}

RangeChoice whole(std::uint64_t size) {
  return {.kind = RangeChoice::Kind::whole, .range = {.first = 0, .count = size}};
}

RangeChoice part(std::uint64_t first, std::uint64_t count) {
  return {.kind = RangeChoice::Kind::part, .range = {.first = first, .count = count}};
}

constexpr RangeChoice kUnsatisfiable{.kind = RangeChoice::Kind::unsatisfiable, .range = {}};

}  // namespace

RangeChoice choose_range(std::string_view header, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (header.substr(0, kUnit.size()) != kUnit) return whole(size);
  const std::string_view spec = header.substr(kUnit.size());
  const std::size_t dash = spec.find('-');
  if (dash == std::string_view::npos) return whole(size);
  const std::string_view first_text = spec.substr(0, dash);
  const std::string_view last_text = spec.substr(dash + 1);

  if (first_text.empty()) {  // the last N bytes
    const std::optional<std::uint64_t> suffix = number(last_text);
    if (!suffix) return whole(size);
    if (*suffix == 0 || size == 0) return kUnsatisfiable;
    const std::uint64_t count = std::min(*suffix, size);
    return part(size - count, count);
  }
  const std::optional<std::uint64_t> first = number(first_text);
  const std::optional<std::uint64_t> last = last_text.empty() ? UINT64_MAX : number(last_text);
  if (!first || !last || *last < *first) return whole(size);
  if (*first >= size) return kUnsatisfiable;
  return part(*first, std::min(*last, size - 1) - *first + 1);
}

}  // namespace tenzro::http
