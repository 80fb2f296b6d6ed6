#include "disk_budget.hpp"

#include <string>

#include "tenzro/base/assert.hpp"

namespace tenzro::store {
namespace {

bool fits(std::uint64_t used, std::uint64_t budget, std::uint64_t bytes) {
  return budget == 0 || (used <= budget && bytes <= budget - used);
}

tl::unexpected<Error> refusal(std::uint64_t used, std::uint64_t budget, std::uint64_t bytes) {
  return fail(ErrorCode::no_space, "disk budget",
              std::to_string(used) + " of " + std::to_string(budget) + " bytes are used, " +
                  std::to_string(bytes) + " more do not fit");
}

}  // namespace

Status DiskBudget::take(std::uint64_t bytes) {
  std::uint64_t used = used_bytes_;
  do {
    if (!fits(used, budget_bytes_, bytes)) return refusal(used, budget_bytes_, bytes);
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
  return {};
}

void DiskBudget::give_back(std::uint64_t bytes) {
  const std::uint64_t before = used_bytes_.fetch_sub(bytes);
  TENZRO_ASSERT(before >= bytes);
}

Status DiskBudget::has_room_for(std::uint64_t bytes) const {
  const std::uint64_t used = used_bytes_;
  if (!fits(used, budget_bytes_, bytes)) return refusal(used, budget_bytes_, bytes);
  return {};
}

Status Reservation::grow(std::uint64_t bytes) {
  if (Status taken = budget_->take(bytes); !taken) return taken;
  bytes_ += bytes;
  return {};
}

}  // namespace tenzro::store
