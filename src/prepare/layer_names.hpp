#pragma once
/// \file
/// LayerNames: the full names of one layer's tensors, once it is known which of the family's
/// alternatives the checkpoint uses.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint.hpp"
#include "layer_plan.hpp"

namespace tenzro::prepare {

/// Stems of one expert's matrices, complete. `gate` is empty where there is none of its own.
struct ExpertStems {
  const ExpertNames* names = nullptr;
  std::string gate;
  std::string up;
  std::string down;
};

class LayerNames {
 public:
  /// The prefix whose router is there, else the family's first.
  LayerNames(const Checkpoint& checkpoint, LayerIndex layer, const HasTensor& has);

  /// The first alternative that is there, else the first; nothing for an empty pattern.
  [[nodiscard]] std::optional<std::string> gate_tensor(std::string_view pattern) const;
  [[nodiscard]] bool has(std::string_view pattern) const;
  /// The naming of which any tensor is there, else the family's first.
  [[nodiscard]] ExpertStems expert(ExpertIndex expert) const;

  /// Whether a tensor stands under `stem` in any form.
  [[nodiscard]] bool has_values(const std::string& stem) const;

 private:
  [[nodiscard]] ExpertStems stems(const ExpertNames& names, ExpertIndex expert) const;

  const Checkpoint& checkpoint_;
  const HasTensor& has_;
  std::string prefix_;
};

/// Forms in which a stem's values may stand, and the tensors beside them.
[[nodiscard]] std::vector<std::string> value_names(const std::string& stem);
[[nodiscard]] std::vector<std::string> companion_names(const std::string& stem);

}  // namespace tenzro::prepare
