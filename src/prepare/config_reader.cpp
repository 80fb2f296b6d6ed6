#include "config_reader.hpp"

#include <cmath>

#include "pattern.hpp"

namespace tenzro::prepare {
namespace {

using nlohmann::json;

const json* find_in(const json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

ConfigReader::ConfigReader(const json& document) : document_(document), section_(&document) {
  const json* nested = find_in(document, "text_config");
  if (nested != nullptr && nested->is_object()) section_ = nested;
}

const json* ConfigReader::find(std::string_view keys) const {
  for (const std::string_view key : alternatives(keys)) {
    if (const json* found = find_in(*section_, key)) return found;
  }
  return nullptr;
}

const json* ConfigReader::find_outside(std::string_view key) const {
  return find_in(document_, key);
}

void ConfigReader::refuse(std::string_view keys, const std::string& why) {
  if (error_) return;
  const std::string name(keys.substr(0, keys.find('|')));
  error_ = Error{ErrorCode::runtime, "config.json", name + " " + why};
}

std::uint32_t ConfigReader::count(std::string_view keys, std::uint32_t min, std::uint32_t max) {
  const auto value = optional_count(keys, min, max);
  if (!value) refuse(keys, "is missing");
  return value.value_or(min);
}

std::optional<std::uint32_t> ConfigReader::optional_count(std::string_view keys, std::uint32_t min,
                                                          std::uint32_t max) {
  const json* value = find(keys);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() < min ||
      value->get<std::uint64_t>() > max) {
    refuse(keys, "must be an integer from " + std::to_string(min) + " to " + std::to_string(max));
    return min;
  }
  return static_cast<std::uint32_t>(value->get<std::uint64_t>());
}

double ConfigReader::number(std::string_view keys, double absent) {
  const json* value = find(keys);
  if (value == nullptr) return absent;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse(keys, "must be a number");
    return absent;
  }
  return value->get<double>();
}

bool ConfigReader::boolean(std::string_view keys, bool absent) {
  const json* value = find(keys);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) {
    refuse(keys, "must be true or false");
    return absent;
  }
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view keys, std::string absent) {
  const json* value = find(keys);
  if (value == nullptr) return absent;
  if (!value->is_string()) {
    refuse(keys, "must be a string");
    return absent;
  }
  return value->get<std::string>();
}

}  // namespace tenzro::prepare
