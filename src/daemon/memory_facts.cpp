#include "memory_facts.hpp"

#include <algorithm>
#include <charconv>

namespace tenzro::daemon {
namespace {

constexpr std::uint64_t kFallbackBytes = 4ULL << 30U;
/// v1 writes the largest multiple of a page below 2^63 where there is no limit.
constexpr std::uint64_t kUnlimitedBytes = 1ULL << 60U;
constexpr std::size_t kGroupsMax = 64;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// The number that `text` begins with.
std::optional<std::uint64_t> leading_number(std::string_view text) {
  text = trimmed(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

/// The number after `key` in lines of "key value" or "key: value kB".
std::optional<std::uint64_t> field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (!line.starts_with(key)) continue;
    const std::string_view rest = line.substr(key.size());
    if (rest.empty() || (rest.front() != ' ' && rest.front() != '\t')) continue;
    return leading_number(rest);
  }
  return std::nullopt;
}

std::string mib(std::uint64_t bytes) {
  return std::to_string(bytes >> 20U) + " MiB";
}

}  // namespace

std::optional<std::uint64_t> available_memory(std::string_view meminfo) {
  const auto kib = field(meminfo, "MemAvailable:");
  if (!kib || *kib >= kUnlimitedBytes / 1024) return std::nullopt;
  return *kib * 1024;
}

std::optional<std::uint64_t> memory_limit(std::string_view text) {
  const auto limit = leading_number(text);
  return limit && *limit < kUnlimitedBytes ? limit : std::nullopt;
}

std::uint64_t reclaimable_memory(std::string_view stat, CgroupVersion version) {
  const auto sum = [stat](std::initializer_list<std::string_view> keys) {
    std::uint64_t bytes = 0;
    for (const std::string_view key : keys)
      bytes += std::min(field(stat, key).value_or(0), kUnlimitedBytes);
    return bytes;
  };
  if (version == CgroupVersion::v1) return sum({"total_inactive_file", "total_active_file"});
  return sum({"inactive_file", "active_file", "slab_reclaimable"});
}

std::optional<std::uint64_t> allowance(const CgroupMemory& group) {
  auto limit = memory_limit(group.limit);
  if (const auto soft = memory_limit(group.soft_limit); soft && (!limit || *soft < *limit))
    limit = soft;
  const auto usage = leading_number(group.usage);
  if (!limit || !usage) return std::nullopt;
  const std::uint64_t used =
      *usage - std::min(*usage, reclaimable_memory(group.stat, group.version));
  return *limit - std::min(*limit, used);
}

std::vector<CgroupPath> memory_cgroups(std::string_view text) {
  std::vector<CgroupPath> groups;
  while (!text.empty() && groups.size() < kGroupsMax) {
    const std::string_view line = take_line(text);
    const std::size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string controllers = ',' + std::string(line.substr(first + 1, second - first - 1));
    const bool is_v2 = controllers == ",";
    if (!is_v2 && (controllers + ',').find(",memory,") == std::string::npos) continue;
    std::string_view path = trimmed(line.substr(second + 1));
    if (path == "/") path = {};
    groups.push_back({is_v2 ? CgroupVersion::v2 : CgroupVersion::v1, std::string(path)});
  }
  return groups;
}

std::optional<std::uint32_t> memory_pressure(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    constexpr std::string_view kField = "avg10=";
    const std::size_t at = line.find(kField);
    if (!line.starts_with("some ") || at == std::string_view::npos) continue;
    const std::string_view value = line.substr(at + kField.size());
    const auto whole = leading_number(value);
    if (!whole || *whole > 100) return std::nullopt;
    std::uint32_t hundredths = static_cast<std::uint32_t>(*whole) * 100;
    const std::size_t point = value.find_first_not_of("0123456789");
    if (point == std::string_view::npos || value[point] != '.') return hundredths;
    const std::string digits = std::string(value.substr(point + 1, 2)) + "00";
    return hundredths + static_cast<std::uint32_t>(leading_number(digits.substr(0, 2)).value_or(0));
  }
  return std::nullopt;
}

MemoryBudget memory_budget(std::optional<std::uint64_t> available,
                           const std::vector<CgroupMemory>& groups) {
  if (!available) return {kFallbackBytes, "MemAvailable cannot be read: 4 GiB"};
  std::uint64_t least = *available;
  std::string reason = "MemAvailable " + mib(least);
  for (const CgroupMemory& group : groups) {
    const auto allowed = allowance(group);
    if (!allowed) continue;
    const std::uint64_t reclaimable = reclaimable_memory(group.stat, group.version);
    reason += "; cgroup '" + group.name + "' allows " + mib(*allowed) + " (uses " +
              mib(leading_number(group.usage).value_or(0)) + ", of which " + mib(reclaimable) +
              " can be reclaimed)";
    least = std::min(least, *allowed);
  }
  return {std::max<std::uint64_t>(least / 10 * 6, 1),
          reason + "; 60 % of the least, " + mib(least)};
}

std::optional<std::uint64_t> PressureGovernor::on_sample(std::uint32_t pressure) {
  const std::uint64_t before = budget_;
  if (pressure >= kHigh) {
    calm_ = 0;
    budget_ = std::max({budget_ - budget_ / 8, full_ / 8, std::uint64_t{1}});
  } else if (pressure > kLow || budget_ == full_) {
    calm_ = 0;
  } else if (++calm_ >= kCalmSamples) {
    calm_ = 0;
    budget_ = std::min(full_, budget_ + std::max<std::uint64_t>(full_ / 16, 1));
  }
  if (budget_ == before) return std::nullopt;
  return budget_;
}

}  // namespace tenzro::daemon
