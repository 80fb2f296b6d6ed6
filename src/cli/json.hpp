#pragma once
/// \file
/// JSON as the client uses it, and readers that take any answer.
///
/// An answer comes from a node that may be older, newer or not ours: a member that is missing or of
/// another type reads as nothing, and never fails.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tenzro::cli {

using Json = nlohmann::ordered_json;

/// The member, or null where `object` has none.
[[nodiscard]] const Json& member(const Json& object, std::string_view name);
/// The member where it is an array, else an empty array.
[[nodiscard]] const Json& list(const Json& object, std::string_view name);
/// One line for a person: text as it is, numbers in full, true and false as yes and no, `-` for
/// null and what is absent. Safe for a terminal.
[[nodiscard]] std::string text(const Json& value);
[[nodiscard]] std::string text(const Json& object, std::string_view name);
/// A whole number that is not negative.
[[nodiscard]] std::optional<std::uint64_t> number(const Json& object, std::string_view name);
[[nodiscard]] bool is_true(const Json& object, std::string_view name);
/// JSON text that never throws on broken UTF-8.
[[nodiscard]] std::string dump(const Json& value);

}  // namespace tenzro::cli
