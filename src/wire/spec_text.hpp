#pragma once
/// \file
/// Writes a specification object. Members stand in the order of the calls, and numbers in the
/// shortest form that reads back as the same value, so equal specifications give equal bytes.
#include <cstdint>
#include <string>
#include <string_view>

namespace tenzro::wire {

/// Shortest decimal text. Requires a finite value.
[[nodiscard]] std::string number_text(double value);
[[nodiscard]] std::string number_text(float value);

class SpecText {
 public:
  /// `name` needs no escaping.
  void name(std::string_view key, std::string_view name);
  void number(std::string_view key, double value);
  void number(std::string_view key, float value);
  void integer(std::string_view key, std::uint32_t value);
  void flag(std::string_view key, bool value);
  void object(std::string_view key, const SpecText& members);

  [[nodiscard]] std::string text() const { return '{' + members_ + '}'; }

 private:
  void member(std::string_view key, std::string_view value);

  std::string members_;
};

}  // namespace tenzro::wire
