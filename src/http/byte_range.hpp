#pragma once
/// \file
/// `Range: bytes=...` against a body whose size is known (RFC 9110, section 14).
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenzro::http {

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// What to send: nothing at all (416) where `unsatisfiable`; the whole body where the header is
/// absent, malformed or names several ranges, which a server may ignore.
struct RangeChoice {
  enum class Kind : std::uint8_t { whole, part, unsatisfiable } kind = Kind::whole;
  ByteRange range;
};

[[nodiscard]] RangeChoice choose_range(std::string_view header, std::uint64_t size);

}  // namespace tenzro::http
