#pragma once
/// \file
/// The source of an expert's stream, where every row of a matrix that is viewed or read has its
/// values checked. Views and reads take whole rows of one matrix, or nothing of any: what else they
/// take of one is a bug of whoever asks. Error of both: also runtime, as check_rows says it.
#include <memory>

#include "tenzro/compute/weights.hpp"

namespace tenzro::wire {

/// Requires that the view has a stream.
[[nodiscard]] std::shared_ptr<const compute::WeightSource> checking_source(
    const compute::ExpertView& view);

}  // namespace tenzro::wire
