#pragma once
/// \file
/// A blob whose bytes are still being read: whoever has it works on what came while the rest comes.
///
/// `read` and `view` wait until the bytes they want are there. Thread: any; not one that others
/// wait for, since a disk takes its time.
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/compute/weights.hpp"

namespace tenzro::work {

class ArrivingBlob : public compute::WeightSource {
 public:
  /// Of all bytes: waits for the last of them. Error: as read's.
  [[nodiscard]] virtual Result<BlobHash> hash() const = 0;
};

}  // namespace tenzro::work
