#pragma once
/// \file
/// Catalog: the models known by name, read from TOML (format: configs/catalog.toml).
///
/// Rules
///  - An unknown key, a wrong type, a value out of range, an unknown family, a second model of one
///    id: an error that names the line and the key. Why so strict: a misspelt key would silently
///    give a default, and a wrong top_k changes results.
///  - `num_experts` decides whether a model is MoE; then layers, hidden, expert_ffn and
///    experts_per_token are required, and the counts must fit each other.
///  - At most kTextBytesMax bytes and kModelsMax models.
/// Code of every error: invalid_params, where "catalog". Lookup O(log n). Immutable once parsed.
#include <cstddef>
#include <map>
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/catalog/model.hpp"

namespace tenzro::catalog {

class Catalog {
 public:
  static constexpr std::size_t kTextBytesMax = std::size_t{1} << 20U;
  static constexpr std::size_t kModelsMax = 4096;

  [[nodiscard]] static Result<Catalog> parse(std::string_view toml);
  /// The one that was embedded at build time.
  [[nodiscard]] static Result<Catalog> builtin();

  /// Null where the id is unknown. The pointer lives as long as the catalog.
  [[nodiscard]] const Model* find(std::string_view id) const;

  /// By id.
  [[nodiscard]] const std::map<ModelId, Model, std::less<>>& models() const { return models_; }

 private:
  Catalog() = default;

  std::map<ModelId, Model, std::less<>> models_;
};

}  // namespace tenzro::catalog
