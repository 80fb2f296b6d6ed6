#include "tenzro/wire/uri.hpp"

#include <array>

#include "tenzro/base/bytes.hpp"

namespace tenzro::wire {
namespace {

constexpr std::string_view kScheme = "tenzro://";
/// The longest form has a kind and three segments; what follows is ignored.
constexpr std::size_t kSegmentsRead = 4;

using Segments = std::array<std::string_view, kSegmentsRead>;

tl::unexpected<Error> refused(std::string detail) {
  return fail(ErrorCode::invalid_params, "", std::move(detail));
}

/// The first segments of `path`; those that are not there are empty.
Segments split(std::string_view path) {
  Segments segments;
  for (std::string_view& segment : segments) {
    const std::size_t end = path.find('/');
    segment = path.substr(0, end);
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  return segments;
}

/// The part of the path that should be the hash, or nothing where the kind is unknown or a name
/// before the hash is empty.
std::optional<std::string_view> hash_text(const Segments& s) {
  if (s[0] == "blob") return s[1];
  if (s[0] == "model") {
    const std::size_t at = s[1].rfind('@');
    if (at == std::string_view::npos || at == 0) return std::nullopt;
    return s[1].substr(at + 1);
  }
  if (s[0] == "gradient" && !s[1].empty() && !s[2].empty()) return s[3];
  if ((s[0] == "shard" || s[0] == "receipt") && !s[1].empty()) return s[2];
  return std::nullopt;
}

}  // namespace

Result<BlobUri> parse_blob_uri(std::string_view text) {
  if (text.size() > kUriBytesMax) {
    return refused("URI is longer than " + std::to_string(kUriBytesMax) + " bytes");
  }
  if (!text.starts_with(kScheme)) return refused("'" + echo(text) + "' is not a tenzro:// URI");
  const std::string_view rest = text.substr(kScheme.size());
  const std::size_t question = rest.find('?');
  BlobUri uri;
  if (question != std::string_view::npos) {
    const std::string_view query = rest.substr(question + 1);
    if (!query.starts_with("n=")) return refused("unknown query '" + echo(query) + '\'');
    uri.hint = hash_from_hex(query.substr(2));
    if (!uri.hint)
      return refused("endpoint id '" + echo(query.substr(2)) + "' is not 64 hex digits");
  }
  const std::optional<std::string_view> hex = hash_text(split(rest.substr(0, question)));
  if (!hex) return refused("'" + echo(text) + "' is not a URI of a blob");
  const std::optional<Hash32> hash = hash_from_hex(*hex);
  if (!hash) return refused("hash '" + echo(*hex) + "' is not 64 lower-case hex digits");
  uri.hash = *hash;
  return uri;
}

std::string format_blob_uri(const BlobHash& hash) {
  return std::string(kScheme) + "blob/" + to_hex(hash);
}

}  // namespace tenzro::wire
