#include "table_reader.hpp"

#include <algorithm>
#include <cmath>

#include "tenzro/base/bytes.hpp"

namespace tenzro::catalog {

namespace {

constexpr std::size_t kTextBytesMax = 256;

bool is_plain(const std::string& text) {
  if (text.empty() || text.size() > kTextBytesMax) return false;
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

}  // namespace

void FirstError::set(const toml::node& at, const std::string& detail) {
  set_line(at.source().begin.line, detail);
}

void FirstError::set_line(std::uint32_t line, const std::string& detail) {
  if (error_) return;
  error_ =
      Error{ErrorCode::invalid_params, "catalog", "line " + std::to_string(line) + ": " + detail};
}

Status FirstError::status() const {
  if (error_) return fail(*error_);
  return {};
}

TableReader::TableReader(const toml::table& table, std::string name, FirstError& error)
    : table_(table), name_(std::move(name)), error_(error) {}

const toml::node* TableReader::take(std::string_view key) {
  taken_.emplace(key);
  return table_.get(key);
}

void TableReader::require(std::string_view key) {
  if (table_.get(key) == nullptr) {
    error_.set(table_, "key '" + std::string(key) + "' missing in " + name_);
  }
}

void TableReader::fail_key(std::string_view key, const std::string& what) {
  const toml::node* at = table_.get(key);
  error_.set(at != nullptr ? *at : table_,
             "key '" + std::string(key) + "' in " + name_ + ": " + echo(what));
}

std::optional<std::string> TableReader::text(std::string_view key) {
  const toml::node* node = take(key);
  if (node == nullptr) return std::nullopt;
  const toml::value<std::string>* value = node->as_string();
  if (value == nullptr || !is_plain(value->get())) {
    fail_key(key, "want a string of 1 to 256 bytes without control characters");
    return std::nullopt;
  }
  return value->get();
}

std::optional<std::uint32_t> TableReader::number(std::string_view key, std::uint32_t most) {
  const toml::node* node = take(key);
  if (node == nullptr) return std::nullopt;
  const toml::value<std::int64_t>* value = node->as_integer();
  if (value == nullptr || value->get() < 0 || value->get() > std::int64_t{most}) {
    fail_key(key, "want an integer from 0 to " + std::to_string(most));
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(value->get());
}

std::optional<double> TableReader::real(std::string_view key) {
  const toml::node* node = take(key);
  if (node == nullptr) return std::nullopt;
  const std::optional<double> value = node->value<double>();
  if (!node->is_number() || !value || !std::isfinite(*value) || *value < 0) {
    fail_key(key, "want a finite number that is not negative");
    return std::nullopt;
  }
  return value;
}

std::optional<bool> TableReader::boolean(std::string_view key) {
  const toml::node* node = take(key);
  if (node == nullptr) return std::nullopt;
  const toml::value<bool>* value = node->as_boolean();
  if (value == nullptr) {
    fail_key(key, "want true or false");
    return std::nullopt;
  }
  return value->get();
}

const toml::table* TableReader::table(std::string_view key) {
  const toml::node* node = take(key);
  if (node == nullptr) return nullptr;
  if (node->as_table() == nullptr) fail_key(key, "want a table");
  return node->as_table();
}

const toml::array* TableReader::tables(std::string_view key) {
  const toml::node* node = take(key);
  if (node == nullptr) return nullptr;
  const toml::array* array = node->as_array();
  if (array != nullptr && array->is_homogeneous(toml::node_type::table)) return array;
  fail_key(key, "want [[" + std::string(key) + "]] tables");
  return nullptr;
}

std::string TableReader::required_text(std::string_view key) {
  require(key);
  return text(key).value_or("");
}

std::uint32_t TableReader::required_number(std::string_view key, std::uint32_t most) {
  require(key);
  return number(key, most).value_or(0);
}

void TableReader::finish() {
  for (const auto& [key, node] : table_) {
    if (taken_.contains(key.str())) continue;
    error_.set_line(key.source().begin.line, "unknown key '" + echo(key.str()) + "' in " + name_);
  }
}

}  // namespace tenzro::catalog
