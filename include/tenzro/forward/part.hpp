#pragma once
/// \file
/// Parts: the rows of one expert that travel together, and who has been asked for them.
///
/// A part is answered once, by whoever comes first; what comes later is ignored. An expert with
/// more rows than one message carries has several parts. Index: position in the flight's list,
/// which only grows.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/planner/plan.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::forward {

using PartIndex = std::size_t;

enum class PartState : std::uint8_t {
  local,    ///< waits for this node's own expert to be in memory
  running,  ///< runs here
  remote,   ///< with one holder, or two
  waiting,  ///< every holder is busy; planned again at `wake`
  done,     ///< answered
  missing   ///< nobody can; allow_partial
};

struct Part {
  ExpertIndex expert = 0;
  std::vector<std::uint32_t> rows;  ///< ascending
  std::vector<planner::Holder> holders;
  std::size_t next = 0;    ///< holder to ask next
  std::uint32_t live = 0;  ///< attempts that carry it
  std::uint32_t replans = 0;
  std::uint32_t waits = 0;
  bool met_busy = false;  ///< since it was last planned
  PartState state = PartState::local;
  Instant wake;
  std::optional<Error> last_error;

  [[nodiscard]] bool is_over() const {
    return state == PartState::done || state == PartState::missing;
  }
};

/// Rows of that width that one message of any transport carries, both ways; at least one.
[[nodiscard]] std::size_t rows_in_part_max(std::uint32_t width);

/// The parts of one planned batch.
[[nodiscard]] std::vector<Part> split(const planner::Batch& batch, std::uint32_t width);

/// Groups of parts (in the given order) that fit one call each: one a call where the transport
/// carries one expert, else as many as its message holds.
[[nodiscard]] std::vector<std::vector<PartIndex>> group(const std::vector<Part>& parts,
                                                        const std::vector<PartIndex>& wanted,
                                                        std::uint32_t width, bool carries_many);

/// The outputs of a job or a reply that carried these parts, each part with its own rows of them. A
/// part whose expert is not among the outputs, or with too few rows, gets none.
[[nodiscard]] std::vector<std::pair<PartIndex, BufferRef>> distribute(
    const std::vector<Part>& parts, const std::vector<PartIndex>& carried,
    const std::vector<work::ExpertOutput>& outputs);

/// What a client reads of a holder's error, with a code that means the same to it.
[[nodiscard]] Error holder_error(planner::View::Slot slot, const Error& error);

}  // namespace tenzro::forward
