#pragma once
/// \file
/// Typed, strict reading of a specification: a JSON object in a metadata string.
///
/// Each call reads one known key into a value that already holds its default. The first problem is
/// remembered and later calls do nothing, so that a reader is a plain list of keys; `finish` then
/// says what went wrong, or names a key that nobody read.
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/wire/flat_json.hpp"

namespace tenzro::wire {

template <typename E>
struct Choice {
  std::string_view name;
  E value;
};

/// Name of a value of a closed set. Requires that it is one of the choices.
template <typename E>
[[nodiscard]] std::string_view name_in(std::span<const Choice<E>> choices, E value) {
  for (const Choice<E>& choice : choices) {
    if (choice.value == value) return choice.name;
  }
  return {};
}

struct NumberRange {
  double min;
  double max;
};

class SpecReader {
 public:
  /// `name` is the metadata key, for error texts. An unreadable text is the first problem.
  SpecReader(std::string_view name, std::string_view text);

  [[nodiscard]] bool has(std::string_view key) const { return json_.contains(key); }

  void number(std::string_view key, double& value, NumberRange range);
  void integer(std::string_view key, std::uint32_t& value, std::uint32_t min);
  void flag(std::string_view key, bool& value);
  void object(std::string_view key);

  template <typename E>
  void choice(std::string_view key, E& value, std::span<const Choice<E>> choices) {
    const std::string* text = find<std::string>(key, "a string");
    if (text == nullptr) return;
    for (const Choice<E>& choice : choices) {
      if (choice.name == *text) {
        value = choice.value;
        return;
      }
    }
    refuse_value(key, *text);
  }

  /// Records a problem that the caller found.
  void refuse(std::string problem);

  [[nodiscard]] Status finish();

 private:
  /// The value at `key`, or nothing where it is absent or of another type (then a problem).
  template <typename T>
  const T* find(std::string_view key, std::string_view wanted) {
    if (problem_ || !has(key)) return nullptr;
    read_.emplace(key);
    const T* value = find_as<T>(json_, key);
    if (value == nullptr) refuse_type(key, wanted);
    return value;
  }

  void refuse_type(std::string_view key, std::string_view wanted);
  void refuse_value(std::string_view key, std::string_view value);

  const std::string name_;
  FlatJson json_;
  std::set<std::string, std::less<>> read_;
  std::optional<std::string> problem_;
};

}  // namespace tenzro::wire
