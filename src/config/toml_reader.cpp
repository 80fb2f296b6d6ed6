#include "toml_reader.hpp"

#include <algorithm>

#include "tenzro/base/bytes.hpp"
#include "tenzro/config/config.hpp"

namespace tenzro::config {
namespace {

constexpr std::size_t kListMax = 10'000;

std::string join(std::initializer_list<std::string_view> choices) {
  std::string text;
  for (const std::string_view choice : choices) {
    if (!text.empty()) text += ", ";
    text += choice;
  }
  return text;
}

}  // namespace

void TomlReader::section(std::string_view name) {
  section_name_ = name;
  sections_.emplace(name);
  section_ = nullptr;
  const toml::node* node = root_.get(name);
  if (node == nullptr) return;
  section_ = node->as_table();
  if (section_ == nullptr)
    record(place(node, ""), "must be a section, [" + std::string(name) + "]");
}

const toml::node* TomlReader::find(std::string_view key) {
  keys_.insert(section_name_ + "." + std::string(key));
  return section_ == nullptr ? nullptr : section_->get(key);
}

std::string TomlReader::place(const toml::node* node, std::string_view key) const {
  std::string where(file_);
  if (node != nullptr) where += ":" + std::to_string(node->source().begin.line);
  where += ": " + section_name_;
  if (!key.empty()) where += "." + std::string(key);
  return where;
}

void TomlReader::record(std::string where, std::string why) {
  if (!error_) error_ = Error{ErrorCode::invalid_params, std::move(where), std::move(why)};
}

void TomlReader::refuse(std::string_view key, std::string why) {
  record(place(section_ == nullptr ? nullptr : section_->get(key), key), std::move(why));
}

void TomlReader::text(std::string_view key, std::string& value) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto given = node->value_exact<std::string>();
  if (!given) return record(place(node, key), "must be a string");
  if (std::any_of(given->begin(), given->end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x20; })) {
    return record(place(node, key), "must not contain control characters");
  }
  value = *given;
}

void TomlReader::choice(std::string_view key, std::string& value,
                        std::initializer_list<std::string_view> choices) {
  std::string given = value;
  text(key, given);
  if (std::find(choices.begin(), choices.end(), given) == choices.end()) {
    return refuse(key, "'" + echo(given) + "' is not one of: " + join(choices));
  }
  value = std::move(given);
}

void TomlReader::texts(std::string_view key, std::vector<std::string>& values) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) return record(place(node, key), "must be a list of strings");
  if (array->size() > kListMax) return record(place(node, key), "has more than 10000 entries");
  std::vector<std::string> given;
  for (const toml::node& element : *array) {
    const auto one = element.value_exact<std::string>();
    if (!one) return record(place(&element, key), "must be a list of strings");
    given.push_back(*one);
  }
  values = std::move(given);
}

void TomlReader::boolean(std::string_view key, bool& value) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto given = node->value_exact<bool>();
  if (!given) return record(place(node, key), "must be true or false");
  value = *given;
}

void TomlReader::integer64(std::string_view key, std::uint64_t& value, Range range) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto given = node->value_exact<std::int64_t>();
  const bool fits = given && *given >= 0 && static_cast<std::uint64_t>(*given) >= range.min &&
                    static_cast<std::uint64_t>(*given) <= range.max;
  if (!fits) {
    return record(place(node, key), "must be an integer from " + std::to_string(range.min) +
                                        " to " + std::to_string(range.max));
  }
  value = static_cast<std::uint64_t>(*given);
}

void TomlReader::integer(std::string_view key, std::uint32_t& value, Range range) {
  std::uint64_t wide = value;
  integer64(key, wide, range);
  value = static_cast<std::uint32_t>(wide);
}

void TomlReader::fraction(std::string_view key, double& value) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  const auto given = node->value<double>();
  if (!given || !(*given >= 0.0 && *given <= 1.0))
    return record(place(node, key), "must be a number from 0 to 1");
  value = *given;
}

void TomlReader::size(std::string_view key, std::uint64_t& value, bool* automatic) {
  const toml::node* node = find(key);
  if (node == nullptr) return;
  if (const auto number = node->value_exact<std::int64_t>(); number && *number >= 0) {
    value = static_cast<std::uint64_t>(*number);
    return;
  }
  const auto given = node->value_exact<std::string>();
  if (given && automatic != nullptr && *given == "auto") {
    *automatic = true;
    return;
  }
  const auto parsed = given ? parse_size(*given) : std::nullopt;
  if (!parsed) {
    return record(place(node, key),
                  std::string("must be a size: bytes, or text like \"8GiB\" (B, KiB, MiB, GiB)") +
                      (automatic != nullptr ? ", or \"auto\"" : ""));
  }
  value = *parsed;
}

Status TomlReader::finish() {
  for (const auto& [name, node] : root_) {
    section_name_ = std::string(name.str());
    if (!sections_.contains(section_name_)) {
      record(place(&node, ""), "unknown section or key");
      continue;
    }
    const toml::table* table = node.as_table();
    if (table == nullptr) continue;
    for (const auto& [key, value] : *table) {
      const bool is_known = keys_.contains(section_name_ + "." + std::string(key.str()));
      if (!is_known) record(place(&value, key.str()), "unknown key");
    }
  }
  if (error_) return fail(*error_);
  return {};
}

}  // namespace tenzro::config
