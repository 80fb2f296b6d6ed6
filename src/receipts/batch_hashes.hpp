#pragma once
/// \file
/// The hashes that the receipts of a set hold, all of them in one go.
///
/// Rules
///  - Every hash is of its own message, so that two are under way at a time (see sha256_many.hpp);
///    rows become bf16 piece by piece as they are hashed.
///  - Experts often see the same rows of the request; those are hashed once.
///  - Where there is much, the work is split over the executor.
/// Pure. Thread: any.
#include <span>
#include <vector>

#include "tenzro/receipts/receipt_set.hpp"

namespace tenzro::receipts {

struct BatchHashes {
  Hash32 input{};
  Hash32 commitment{};
  Hash32 rows{};
};

/// One for each batch. Requires what make_set does.
[[nodiscard]] std::vector<BatchHashes> hash_batches(const SetExecution& execution,
                                                    std::span<const SetBatch> batches,
                                                    compute::Executor& executor);

}  // namespace tenzro::receipts
