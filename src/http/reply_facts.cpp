#include "reply_facts.hpp"

#include <algorithm>
#include <charconv>

namespace tenzro::http {
namespace {

/// No limit that is worth waiting for takes longer.
constexpr std::uint64_t kWaitSecondsMax = 86'400;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// What stands before the next `separator`, which is taken off with it.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return trimmed(part);
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

/// What is left of one limit, and when it is renewed.
struct Limit {
  std::optional<std::uint64_t> left;
  std::optional<std::uint64_t> reset_seconds;

  void take(std::string_view parameter) {
    const std::string_view name = take_until(parameter, '=');
    if (name == "r" || name == "remaining") left = number(trimmed(parameter));
    if (name == "t" || name == "reset") reset_seconds = number(trimmed(parameter));
  }

  [[nodiscard]] std::optional<std::uint64_t> wait() const {
    return left == 0U ? reset_seconds : std::nullopt;
  }
};

}  // namespace

std::optional<ContentRange> parse_content_range(std::string_view text) {
  text = trimmed(text);
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const std::string_view range = take_until(text, '/');
  ContentRange facts;
  if (text != "*") {
    facts.file_bytes = number(text);
    if (!facts.file_bytes) return std::nullopt;
  }
  if (range == "*") return facts;
  std::string_view last_text = range;
  const auto first = number(take_until(last_text, '-'));
  const auto last = number(last_text);
  const bool is_range =
      first && last && *first <= *last && (!facts.file_bytes || *last < *facts.file_bytes);
  if (!is_range) return std::nullopt;
  facts.first = first;
  facts.last = *last;
  return facts;
}

std::optional<std::uint32_t> parse_rate_limit(std::string_view text) {
  std::optional<std::uint64_t> longest;
  const auto consider = [&longest](const Limit& limit) {
    if (const auto wait = limit.wait()) longest = std::max(longest.value_or(0), *wait);
  };
  Limit single;  // the older form: its parts stand between commas
  while (!text.empty()) {
    std::string_view item = take_until(text, ',');
    if (item.find(';') == std::string_view::npos) {
      single.take(item);
      continue;
    }
    Limit one;
    while (!item.empty()) one.take(take_until(item, ';'));
    consider(one);
  }
  consider(single);
  if (!longest) return std::nullopt;
  return static_cast<std::uint32_t>(std::min(*longest, kWaitSecondsMax));
}

}  // namespace tenzro::http
