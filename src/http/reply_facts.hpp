#pragma once
/// \file
/// What headers of a reply say of a file and of its server's limits. Pure; a header that does not
/// say it in the way of its specification says nothing.
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenzro::http {

/// `Content-Range: bytes 0-99/1234`, with `*` for a range or a size that is not told.
struct ContentRange {
  /// Nothing where no range is satisfied (`bytes */1234`).
  std::optional<std::uint64_t> first;
  std::uint64_t last = 0;
  std::optional<std::uint64_t> file_bytes;
};

[[nodiscard]] std::optional<ContentRange> parse_content_range(std::string_view text);

/// Seconds to wait until a limit that is used up is renewed; nothing where none is. Reads the list
/// of limits (`"default";r=0;t=30`) and the older single one (`limit=100, remaining=0, reset=30`).
[[nodiscard]] std::optional<std::uint32_t> parse_rate_limit(std::string_view text);

}  // namespace tenzro::http
