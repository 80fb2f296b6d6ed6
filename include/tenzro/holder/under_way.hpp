#pragma once
/// \file
/// What a Holder has under way: loads, reads, removals, and how an expert comes in.
#include <cstdint>
#include <memory>
#include <optional>

#include "tenzro/base/ids.hpp"
#include "tenzro/holder/action.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::holder {

/// How an expert comes in, and what of the budget that takes for the moment.
struct Passage {
  std::uint64_t bytes = 0;
  bool is_by_slices = false;
};

/// A load, from the request to the durable row.
struct Load {
  RequestId waiter{};
  LoadSource source;
  work::HoldingRow row;
  std::shared_ptr<const compute::ResidentExpert> resident;
  std::shared_ptr<const work::Gate> gate;
  /// Of the budget: its blob's bytes, and its resident form's where it gets one.
  std::uint64_t reserved_bytes = 0;
  bool is_running = false;  ///< one of `loads_running_`
  bool is_blob_lost = false;
  bool is_by_slices = false;
  bool is_only_checked = false;
  std::uint64_t slices_bytes = 0;  ///< what reading it by slices may take
  bool is_again = false;           ///< it needed more than its blob let expect
  /// Of the store's blob, as it was read.
  std::optional<work::FileMark> file;
};

/// A blob on its way from disk to memory.
struct Read {
  LayerKey layer;
  std::optional<ExpertIndex> expert;
  BlobHash hash{};
  bool is_background = false;
  bool is_by_slices = false;
  std::uint64_t bytes = 0;  ///< reserved from the budget
  work::FileMark file = 0;  ///< of its blob
};

struct Removal {
  RequestId waiter{};
  LayerKey layer;
  std::optional<ExpertIndex> expert;
};

}  // namespace tenzro::holder
