#include "spec_reader.hpp"

#include <utility>

#include "tenzro/base/bytes.hpp"

#include "spec_text.hpp"

namespace tenzro::wire {

SpecReader::SpecReader(std::string_view name, std::string_view text) : name_(name) {
  auto parsed = parse_flat_json(text);
  if (parsed) {
    json_ = std::move(*parsed);
  } else {
    problem_ = std::move(parsed.error());
  }
}

void SpecReader::number(std::string_view key, double& value, NumberRange range) {
  if (problem_ || !has(key)) return;
  read_.emplace(key);
  double number = 0;
  if (const auto* whole = find_as<std::int64_t>(json_, key)) {
    number = static_cast<double>(*whole);
  } else if (const auto* real = find_as<double>(json_, key)) {
    number = *real;
  } else {
    refuse_type(key, "a number");
    return;
  }
  if (number < range.min || number > range.max) {
    refuse_value(key, number_text(number));
    return;
  }
  value = number;
}

void SpecReader::integer(std::string_view key, std::uint32_t& value, std::uint32_t min) {
  const auto* number = find<std::int64_t>(key, "an integer");
  if (number == nullptr) return;
  if (*number < min || !std::in_range<std::uint32_t>(*number)) {
    refuse_value(key, std::to_string(*number));
    return;
  }
  value = static_cast<std::uint32_t>(*number);
}

void SpecReader::flag(std::string_view key, bool& value) {
  const bool* flag = find<bool>(key, "true or false");
  if (flag != nullptr) value = *flag;
}

void SpecReader::object(std::string_view key) {
  static_cast<void>(find<FlatObject>(key, "an object"));
}

void SpecReader::refuse(std::string problem) {
  if (!problem_) problem_ = std::move(problem);
}

Status SpecReader::finish() {
  for (const auto& [key, value] : json_) {
    if (!read_.contains(key)) refuse("unknown key '" + echo(key) + '\'');
  }
  if (problem_) return fail(ErrorCode::runtime, name_, std::move(*problem_));
  return {};
}

void SpecReader::refuse_type(std::string_view key, std::string_view wanted) {
  refuse('\'' + std::string(key) + "' must be " + std::string(wanted));
}

void SpecReader::refuse_value(std::string_view key, std::string_view value) {
  refuse('\'' + std::string(key) + "' has unknown or out of range value '" + echo(value) + '\'');
}

}  // namespace tenzro::wire
