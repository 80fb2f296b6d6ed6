#pragma once
/// \file
/// A strict JSON parser (RFC 8259) for bodies of which most is one tensor.
///
/// Why our own: a body may be 64 MiB, and a general parser copies each string and converts each
/// number before a handler sees it. Here both stay where they are (json_node.hpp), so that base64
/// is decoded once, from the body into its buffer, and nothing has to stand in for it meanwhile.
/// The tests compare it with a general parser.
///
/// Rules
///  - No recursion; containers deeper than `depth_max` are a parse_error.
///  - More than `values_max` values are an invalid_request: each costs a node of 64 bytes. The
///    numbers of an array count, though they cost none, except under the key `hidden` (a tensor).
///  - A key named twice in one object is no parse error: the nodes around it say
///    `has_duplicate_key`.
///  - Escapes that are no Unicode scalar value (lone surrogates), byte order marks and invalid
///    UTF-8 anywhere are parse errors. No error repeats any of the text.
///
/// Cost: one pass; numbers in an array that turns out to be mixed are looked at twice. Pure.
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/result.hpp"

#include "json_node.hpp"

namespace tenzro::rpc {

/// Longer bodies are refused: positions are 32 bits wide.
inline constexpr std::size_t kBodyBytesMax = std::size_t{1} << 31U;

struct JsonLimits {
  std::size_t depth_max = 64;
  std::size_t values_max = 1'000'000;
};

/// Views the text it was parsed from, which must outlive it.
class JsonDocument {
 public:
  [[nodiscard]] const JsonNode& root() const { return nodes_.front(); }

 private:
  friend class JsonParser;

  std::vector<JsonNode> nodes_;
  /// Strings that had escapes. A deque, because nodes view them.
  std::deque<std::string> unescaped_;
};

[[nodiscard]] Result<JsonDocument> parse_json(std::string_view text, const JsonLimits& limits);

}  // namespace tenzro::rpc
