#pragma once
/// \file
/// What a Holder knows of each expert and gate that it holds.
#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "tenzro/base/ids.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/holder/action.hpp"
#include "tenzro/holder/retention.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::holder {

/// Which weights a lease was told of, those of now or those that a load replaced.
enum class Told : std::uint8_t { nothing, current, former };

struct Entry {
  work::HoldingRow row;
  std::shared_ptr<const compute::ResidentExpert> resident;  ///< null: on disk only
  ItemId item{};
  std::uint64_t used = 0;  ///< value of `clock_` at the last use
  std::map<LeaseId, Told> leases;
  bool is_wanted = false;  ///< stands in `wanted_`
  bool is_reading = false;
  bool has_failed_read = false;  ///< not tried again in the background
  bool is_checked = false;       ///< its blob was hashed in this life, as the file below
  work::FileMark file = 0;
  bool is_damage_told = false;  ///< since it was last read well
  /// What `resident` is of the budget: all of the expert, or the scratch for its slices.
  std::uint64_t held_bytes = 0;

  [[nodiscard]] bool is_streamed() const { return resident != nullptr && resident->is_streamed(); }
};

/// Weights that were replaced or unloaded while leases used them.
struct Former {
  std::uint64_t bytes = 0;
  std::set<LeaseId> leases;  ///< never empty
};

struct GateEntry {
  work::HoldingRow row;
  std::shared_ptr<const work::Gate> gate;
};

}  // namespace tenzro::holder
