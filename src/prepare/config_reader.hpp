#pragma once
/// \file
/// ConfigReader: typed values out of config.json, keeping the first error.
///
/// Multimodal checkpoints keep the numbers of the language model under `text_config`: where there
/// is one, keys are looked up there. A key pattern "a|b" takes the first key that is there;
/// messages name the first one.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tenzro/base/result.hpp"

namespace tenzro::prepare {

class ConfigReader {
 public:
  /// `document` is an object, and outlives the reader.
  explicit ConfigReader(const nlohmann::json& document);

  [[nodiscard]] std::uint32_t count(std::string_view keys, std::uint32_t min, std::uint32_t max);
  [[nodiscard]] std::optional<std::uint32_t> optional_count(std::string_view keys,
                                                            std::uint32_t min, std::uint32_t max);
  [[nodiscard]] double number(std::string_view keys, double absent);
  [[nodiscard]] bool boolean(std::string_view keys, bool absent);
  [[nodiscard]] std::string text(std::string_view keys, std::string absent);

  /// Null where it is absent or null.
  [[nodiscard]] const nlohmann::json* find(std::string_view keys) const;
  /// As find, in the document itself.
  [[nodiscard]] const nlohmann::json* find_outside(std::string_view key) const;

  void refuse(std::string_view keys, const std::string& why);

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const nlohmann::json& document_;
  const nlohmann::json* section_;
  std::optional<Error> error_;
};

}  // namespace tenzro::prepare
