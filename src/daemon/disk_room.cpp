#include "disk_room.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace tenzro::daemon {

std::uint64_t disk_room(const std::string& blob_dir, const store::Usage& usage) {
  constexpr std::uint64_t kReserveMax = 1ULL << 30U;
  const std::uint64_t budget_left =
      usage.budget_bytes - std::min(usage.budget_bytes, usage.blob_bytes);
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(blob_dir, error);
  if (error) return budget_left;
  const std::uint64_t reserve = std::min<std::uint64_t>(space.capacity / 20, kReserveMax);
  const std::uint64_t left = space.available - std::min<std::uint64_t>(space.available, reserve);
  return usage.budget_bytes == 0 ? left : std::min(left, budget_left);
}

}  // namespace tenzro::daemon
