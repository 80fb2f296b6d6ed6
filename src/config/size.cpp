#include <charconv>

#include "tenzro/base/bytes.hpp"
#include "tenzro/config/config.hpp"

namespace tenzro::config {

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  std::uint64_t factor = 0;
  if (unit.empty() || unit == "B") factor = 1;
  if (unit == "KiB") factor = 1ULL << 10U;
  if (unit == "MiB") factor = 1ULL << 20U;
  if (unit == "GiB") factor = 1ULL << 30U;
  if (factor == 0) return std::nullopt;
  return checked_mul(number, factor);
}

}  // namespace tenzro::config
