#include "json.hpp"

#include "format.hpp"

namespace tenzro::cli {

const Json& member(const Json& object, std::string_view name) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

const Json& list(const Json& object, std::string_view name) {
  static const Json empty = Json::array();
  const Json& found = member(object, name);
  return found.is_array() ? found : empty;
}

std::string text(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return printable(value.get_ref<const std::string&>());
  return printable(dump(value));
}

std::string text(const Json& object, std::string_view name) {
  return text(member(object, name));
}

std::optional<std::uint64_t> number(const Json& object, std::string_view name) {
  const Json& found = member(object, name);
  if (found.is_number_unsigned()) return found.get<std::uint64_t>();
  if (!found.is_number_integer() || found.get<std::int64_t>() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(found.get<std::int64_t>());
}

bool is_true(const Json& object, std::string_view name) {
  const Json& found = member(object, name);
  return found.is_boolean() && found.get<bool>();
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tenzro::cli
