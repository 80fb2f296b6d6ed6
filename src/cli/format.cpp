#include "format.hpp"

#include <array>
#include <cstdio>

namespace tenzro::cli {
namespace {

constexpr std::size_t kShortIdBytes = 12;

template <typename... Values>
std::string print(const char* pattern, Values... values) {
  std::array<char, 64> out{};
  const int size = std::snprintf(out.data(), out.size(), pattern, values...);
  return {out.data(), static_cast<std::size_t>(size)};
}

bool is_c1_control(std::string_view text, std::size_t at) {
  // U+0080..U+009F in UTF-8: some terminals obey them.
  if (text[at] != '\xC2' || at + 1 == text.size()) return false;
  const auto next = static_cast<unsigned char>(text[at + 1]);
  return next >= 0x80 && next <= 0x9F;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) {
      out += print("\\x%02x", static_cast<unsigned>(byte));
    } else if (is_c1_control(text, i)) {
      ++i;
      out += print("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[i])));
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return print("%.1f %s", value, kUnits.at(unit));
}

std::string microseconds_text(std::uint64_t us) {
  if (us < 1000) return std::to_string(us) + " us";
  if (us < 1'000'000) return print("%.2f ms", static_cast<double>(us) / 1e3);
  return print("%.2f s", static_cast<double>(us) / 1e6);
}

std::string nanoseconds_text(std::uint64_t ns) {
  return ns < 1000 ? std::to_string(ns) + " ns" : microseconds_text(ns / 1000);
}

std::string percent_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return print("%.1f %%", static_cast<double>(part) * 100 / static_cast<double>(whole));
}

std::string hit_rate_text(std::uint64_t hits, std::uint64_t misses) {
  return percent_text(hits, hits + misses) + " of " + std::to_string(hits + misses) +
         " found in memory";
}

std::string uptime_text(std::uint64_t seconds) {
  const std::uint64_t minutes = seconds / 60;
  const std::uint64_t hours = minutes / 60;
  const auto join = [](std::uint64_t a, const char* unit_a, std::uint64_t b, const char* unit_b) {
    return std::to_string(a) + unit_a + " " + std::to_string(b) + unit_b;
  };
  if (hours >= 24) return join(hours / 24, "d", hours % 24, "h");
  if (hours > 0) return join(hours, "h", minutes % 60, "m");
  if (minutes > 0) return join(minutes, "m", seconds % 60, "s");
  return std::to_string(seconds) + "s";
}

std::string short_id(std::string_view id) {
  if (id.size() <= kShortIdBytes + 2) return std::string(id);
  return std::string(id.substr(0, kShortIdBytes)) + "..";
}

}  // namespace tenzro::cli
