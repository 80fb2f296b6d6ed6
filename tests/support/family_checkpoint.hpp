#pragma once
/// \file
/// Checkpoints of every family under its real tensor names, whose reference output is known: the
/// golden files of tests/data/router with the config.json that a family publishes.
#include <cstddef>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/ids.hpp"

#include "support/family_golden.hpp"

namespace tenzro::testing {

struct FamilyCheckpoint {
  const char* name = "";  ///< of the golden case
  const char* file = "";
  /// What the family's config.json says, beside what the golden file's metadata says.
  const char* config = "";
  LayerIndex layer = 0;
  /// Added to every selection bias.
  float bias_shift = 0;
};

/// For messages of tests that have it as a parameter.
inline std::ostream& operator<<(std::ostream& out, const FamilyCheckpoint& checkpoint) {
  return out << checkpoint.name;
}

/// One for each name of family_case_names().
[[nodiscard]] std::span<const FamilyCheckpoint> family_checkpoints();

/// Its model.safetensors. `folder` is tests/data/router.
[[nodiscard]] std::vector<std::byte> file_of(const FamilyCheckpoint& checkpoint,
                                             const std::string& folder);

/// Of a family that computes what another one does: a file under its own names, from the other's
/// golden.
struct RelatedCheckpoint {
  const char* name = "";
  const char* golden = "";
  const char* config = "";
  LayerIndex layer = 0;
  std::vector<std::byte> (*file)(const FamilyCase& golden) = nullptr;
};

/// Qwen3 Next, an ordinary layer and a prediction layer; DiffusionGemma.
[[nodiscard]] std::span<const RelatedCheckpoint> related_checkpoints();

}  // namespace tenzro::testing
