#include "spec_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "tenzro/base/assert.hpp"

namespace tenzro::wire {
namespace {

template <typename T>
std::string shortest(T value) {
  TENZRO_ASSERT(std::isfinite(value));
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  TENZRO_ASSERT(written.ec == std::errc{});
  return {text.data(), written.ptr};
}

}  // namespace

std::string number_text(double value) {
  return shortest(value);
}

std::string number_text(float value) {
  return shortest(value);
}

void SpecText::name(std::string_view key, std::string_view name) {
  member(key, '"' + std::string(name) + '"');
}

void SpecText::number(std::string_view key, double value) {
  member(key, number_text(value));
}

void SpecText::number(std::string_view key, float value) {
  member(key, number_text(value));
}

void SpecText::integer(std::string_view key, std::uint32_t value) {
  member(key, std::to_string(value));
}

void SpecText::flag(std::string_view key, bool value) {
  member(key, value ? "true" : "false");
}

void SpecText::object(std::string_view key, const SpecText& members) {
  member(key, members.text());
}

void SpecText::member(std::string_view key, std::string_view value) {
  if (!members_.empty()) members_.push_back(',');
  members_.push_back('"');
  members_ += key;
  members_ += "\":";
  members_ += value;
}

}  // namespace tenzro::wire
