#pragma once
/// \file
/// Reads one TOML document against a list of expected keys, collecting the first error.
///
/// Every getter names the key it serves; what no getter asked for is an unknown key.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "tenzro/base/result.hpp"

namespace tenzro::config {

struct Range {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

class TomlReader {
 public:
  TomlReader(const toml::table& root, std::string_view file) : root_(root), file_(file) {}

  /// Following getters read this section.
  void section(std::string_view name);

  void text(std::string_view key, std::string& value);
  void choice(std::string_view key, std::string& value,
              std::initializer_list<std::string_view> choices);
  void texts(std::string_view key, std::vector<std::string>& values);
  void boolean(std::string_view key, bool& value);
  void integer(std::string_view key, std::uint32_t& value, Range range);
  void integer64(std::string_view key, std::uint64_t& value, Range range);
  void fraction(std::string_view key, double& value);
  /// Bytes, or text with a unit. `automatic`, where not null, is set for the text "auto".
  void size(std::string_view key, std::uint64_t& value, bool* automatic);

  /// Fails with `FILE:LINE: section.key: why`.
  void refuse(std::string_view key, std::string why);
  /// The first error, unknown keys included.
  [[nodiscard]] Status finish();

 private:
  [[nodiscard]] const toml::node* find(std::string_view key);
  void record(std::string where, std::string why);
  [[nodiscard]] std::string place(const toml::node* node, std::string_view key) const;

  const toml::table& root_;
  std::string_view file_;
  std::string section_name_;
  const toml::table* section_ = nullptr;
  std::set<std::string, std::less<>> sections_;
  std::set<std::string, std::less<>> keys_;
  std::optional<Error> error_;
};

}  // namespace tenzro::config
