#pragma once
/// \file
/// Copies: how many holders one expert has, and how many more it should have.
///
/// Rules
///  - A copy counts if its holder is in the view (a suspect one too) or absent for a while only.
///  Why: one lost packet or a restart must move no data.
///  - A holder that is leaving counts, so that an upgrade moves little; but where only such holders
///  are left one more copy is needed at once, lest the expert goes with them.
///  - An expert is hot where every holder that stays has reached the hot rate; it then gets one
///  copy more at a time, up to `max_replication`. Why every: while one of them is idle, load goes
///  there by itself, and a rate is that of the whole node, so that one hot expert would make
///  thousands look hot.
/// Pure. Thread: any.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/repair/absent.hpp"
#include "tenzro/shards/view.hpp"

namespace tenzro::repair {

struct Policy {
  std::size_t min_replication = 2;
  std::size_t max_replication = 8;
  std::uint32_t hot_threshold_tps = 1000;
};

struct Copies {
  std::size_t staying = 0;  ///< in the view, and not leaving
  std::size_t alive = 0;    ///< of those: not suspect
  std::size_t leaving = 0;
  std::size_t absent = 0;
  std::uint32_t rate_min = 0;  ///< of those that stay
  std::uint32_t rate_max = 0;
  bool is_held_here = false;

  [[nodiscard]] std::size_t counted() const { return staying + leaving + absent; }
};

struct Need {
  std::size_t missing = 0;
  bool is_hot = false;  ///< above the floor
};

/// `absent` are those of the expert's model.
[[nodiscard]] Copies count_copies(const std::vector<shards::Candidate>& holders,
                                  shards::View::Slot slot,
                                  const std::vector<Absent::Holder>& absent,
                                  const ProviderAddress& self);
[[nodiscard]] Need need_of(const Copies& copies, const Policy& policy);

/// The blob to fetch: what most holders declare, of equal counts `known`; nothing where nobody
/// declares one, or where equal counts leave it open. Why most: whoever declares other bytes under
/// that name is then alone with them. Why nothing: a rule that anyone can work out lets whoever
/// declares other bytes win.
struct BlobChoice {
  std::optional<BlobHash> blob;
  bool is_disputed = false;
};

[[nodiscard]] BlobChoice choose_blob(const std::vector<shards::Candidate>& holders,
                                     const std::optional<BlobHash>& known);

}  // namespace tenzro::repair
