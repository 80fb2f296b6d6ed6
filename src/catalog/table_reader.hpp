#pragma once
/// \file
/// TableReader: typed values out of one TOML table, strictly.
///
/// The first error of all readers of one parse is kept in a shared FirstError, and reading goes on
/// with absent values: so the code that reads is straight, and checks once at the end. `finish`
/// reports keys that nobody asked for.
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <toml++/toml.h>

#include "tenzro/base/result.hpp"

namespace tenzro::catalog {

class FirstError {
 public:
  void set(const toml::node& at, const std::string& detail);
  void set_line(std::uint32_t line, const std::string& detail);

  /// The first error, or success.
  [[nodiscard]] Status status() const;

 private:
  std::optional<Error> error_;
};

class TableReader {
 public:
  /// `name` is how messages call the table: "[family.kimi_k2]". All must outlive the reader.
  TableReader(const toml::table& table, std::string name, FirstError& error);

  /// Absent where the key is absent or was refused; 1..kTextBytesMax bytes without control
  /// characters.
  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  /// 0..most.
  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view key, std::uint32_t most);
  /// Finite and not negative.
  [[nodiscard]] std::optional<double> real(std::string_view key);
  [[nodiscard]] std::optional<bool> boolean(std::string_view key);
  [[nodiscard]] const toml::table* table(std::string_view key);
  /// An array that holds tables only.
  [[nodiscard]] const toml::array* tables(std::string_view key);

  /// One of the names in `choices`.
  template <typename T, std::size_t N>
  [[nodiscard]] std::optional<T> choice(std::string_view key,
                                        const std::pair<std::string_view, T> (&choices)[N]) {
    const std::optional<std::string> name = text(key);
    if (!name) return std::nullopt;
    for (const auto& [known, value] : choices) {
      if (known == *name) return value;
    }
    fail_key(key, "unknown value '" + *name + "'");
    return std::nullopt;
  }

  /// As the reads above; an absent key is an error, and a stand-in comes back.
  [[nodiscard]] std::string required_text(std::string_view key);
  [[nodiscard]] std::uint32_t required_number(std::string_view key, std::uint32_t most);

  /// Blames a key that is there, or the table.
  void fail_key(std::string_view key, const std::string& what);
  /// Blames every key that was never asked for.
  void finish();

 private:
  const toml::node* take(std::string_view key);
  void require(std::string_view key);

  const toml::table& table_;
  std::string name_;
  FirstError& error_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace tenzro::catalog
