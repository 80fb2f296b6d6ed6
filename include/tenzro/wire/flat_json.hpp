#pragma once
/// \file
/// Small JSON objects, read strictly into a flat, ordered map: `{"a": {"b": 1}}` is `a` (an object)
/// and `a.b` (1). For specifications in blob metadata and for receipts, not for request bodies.
///
/// Rules
///  - One JSON object of at most `bytes_max` bytes of UTF-8, nothing after it, no byte order mark.
///  - A repeated key is refused, and so is a key that holds a '.': paths are unambiguous.
///  - At most `depth_max` levels. Why limits at all: the text comes from peers and blobs.
///  - Integers and floats stay apart: 3 is an integer, 3.0 is not. An integer beyond 64 bits is a
///    float. Numbers are finite.
///  - Arrays are leaves. A list of integers is kept; of any other array it is only known that it is
///    there.
/// Cost: O(bytes log members). Pure. Thread: any.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tenzro/base/result.hpp"

namespace tenzro::wire {

/// An object; its members have entries of their own.
struct FlatObject {
  friend bool operator==(const FlatObject&, const FlatObject&) = default;
};

/// null, or an array of something else than integers.
struct FlatOpaque {
  friend bool operator==(const FlatOpaque&, const FlatOpaque&) = default;
};

using FlatValue = std::variant<FlatOpaque, FlatObject, bool, std::int64_t, double, std::string,
                               std::vector<std::int64_t>>;

struct FlatJsonLimits {
  std::size_t bytes_max = 64ULL << 10U;
  std::size_t depth_max = 4;
};

/// Entries by path. Ordered: iteration reaches error texts.
using FlatJson = std::map<std::string, FlatValue, std::less<>>;

/// The object's entries, or a sentence that says what is wrong with the text.
[[nodiscard]] tl::expected<FlatJson, std::string> parse_flat_json(
    std::string_view text, const FlatJsonLimits& limits = {});

/// The value at `path` where it is there and holds a T.
template <typename T>
[[nodiscard]] const T* find_as(const FlatJson& json, std::string_view path) {
  const auto found = json.find(path);
  return found == json.end() ? nullptr : std::get_if<T>(&found->second);
}

}  // namespace tenzro::wire
