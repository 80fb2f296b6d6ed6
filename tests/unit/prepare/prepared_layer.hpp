#pragma once
/// \file
/// A layer's blobs as a holder would have them: published, parsed, forwarded.
#include <vector>

#include "support/family_golden.hpp"
#include "unit/prepare/source_file.hpp"

namespace tenzro::testing {

/// The layer's output for the case's input, computed from blobs that are made of `file`; and that
/// every expert's blob is, byte for byte, the one of the case's own reading. Expectations fail, and
/// nothing is returned, where that is not so.
[[nodiscard]] std::vector<float> forward_prepared(const SourceFile& file,
                                                  const prepare::Checkpoint& checkpoint,
                                                  LayerIndex layer, const FamilyCase& golden);

/// Of the largest expected value.
[[nodiscard]] double relative_error(std::span<const float> got, std::span<const float> expected);

}  // namespace tenzro::testing
