#include "gguf_metadata.hpp"

#include <cmath>

namespace tenzro::prepare {

using tensor::GgufValue;

std::optional<std::uint32_t> GgufMetadata::optional_count(std::string_view key, std::uint32_t min,
                                                          std::uint32_t max) {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<std::uint64_t> number;
  if (const auto* plain = std::get_if<std::uint64_t>(value)) number = *plain;
  if (const auto* whole = std::get_if<std::int64_t>(value); whole != nullptr && *whole >= 0) {
    number = static_cast<std::uint64_t>(*whole);
  }
  if (const auto* layers = std::get_if<std::vector<double>>(value)) {
    const double same = one_of(key, *layers);
    if (same >= 0 && same <= UINT32_MAX && same == std::floor(same))
      number = static_cast<std::uint64_t>(same);
  }
  if (number && *number >= min && *number <= max) return static_cast<std::uint32_t>(*number);
  refuse(key, "must be an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return min;
}

std::uint32_t GgufMetadata::count(std::string_view key, std::uint32_t max) {
  const auto value = optional_count(key, 1, max);
  if (!value) refuse(key, "is missing");
  return value.value_or(1);
}

double GgufMetadata::number(std::string_view key, double absent) {
  const GgufValue* value = find(key);
  if (value == nullptr) return absent;
  if (const auto* real = std::get_if<double>(value); real != nullptr && std::isfinite(*real))
    return *real;
  if (const auto* layers = std::get_if<std::vector<double>>(value)) return one_of(key, *layers);
  refuse(key, "must be a number");
  return absent;
}

bool GgufMetadata::boolean(std::string_view key, bool absent) {
  const GgufValue* value = find(key);
  if (value == nullptr) return absent;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  refuse(key, "must be true or false");
  return absent;
}

void GgufMetadata::refuse(std::string_view key, const std::string& why) {
  if (!error_) error_ = Error{ErrorCode::runtime, architecture_ + "." + std::string(key), why};
}

double GgufMetadata::one_of(std::string_view key, const std::vector<double>& layers) {
  double found = 0;
  for (const double each : layers) {
    if (!std::isfinite(each)) refuse(key, "must be numbers");
    if (found != 0 && each != 0 && each != found)
      refuse(key, "differs from layer to layer, which is not supported");
    if (each != 0) found = each;
  }
  return found;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = entries_.find(architecture_ + "." + std::string(key));
  return found == entries_.end() ? nullptr : &found->second;
}

}  // namespace tenzro::prepare
