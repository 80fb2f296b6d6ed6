#pragma once
/// \file
/// `tenzro://` URIs that carry a blob hash.
///
/// `tenzro://blob/<hash>[?n=<endpoint id>]`, and hash-bearing siblings accepted where a blob is
/// fetched: `tenzro://model/<id>@<hash>`, `tenzro://gradient/<run>/<round>/<hash>`,
/// `tenzro://shard/<manifest>/<envelope>` (the envelope), `tenzro://receipt/<kind>/<hash>`. A hash
/// is 64 lower-case hex digits of BLAKE3. Upper case, a wrong length, a query other than `n=` and
/// anything else are errors (invalid_params); extra path segments are ignored.
#include <optional>
#include <string>
#include <string_view>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"

namespace tenzro::wire {

inline constexpr std::size_t kUriBytesMax = 2048;

struct BlobUri {
  BlobHash hash{};
  /// Where the blob may be found: an Ed25519 public key as 64 hex digits.
  std::optional<EndpointId> hint;
};

[[nodiscard]] Result<BlobUri> parse_blob_uri(std::string_view text);
/// The bare form, `tenzro://blob/<hash>`.
[[nodiscard]] std::string format_blob_uri(const BlobHash& hash);

}  // namespace tenzro::wire
