#pragma once
/// \file
/// Where a checkpoint is: a folder of this machine, or a base URL.
///
/// `/folder`, `file:///folder`, `https://host/path`, and each of them with the name of one
/// `.safetensors` or `.gguf` file at its end, which is then the only one read (of a split GGUF file
/// its first part, and the others lie beside it). Rules
///  - A URL is http or https, printable ASCII without spaces, quotes or backslashes, without user
///  or fragment; as a base it has no query. Why so strict: no two parsers agree on the rest, and it
///  is decided here who gets a token.
///  - http is for this machine itself (`localhost`, 127.0.0.0/8, ::1), elsewhere only where the
///  configuration says so.
///  - What stands in a checkpoint's index are names of files of that folder and nothing else.
/// Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"

namespace tenzro::prepare {

enum class PlainHttp : std::uint8_t { loopback_only, anywhere };

/// "https://host:port", in lower case, the port always there: who a server is, as far as tokens go.
/// Error: invalid_params.
[[nodiscard]] Result<std::string> origin_of(std::string_view url);
/// Whether the URL may be called at all. Error: invalid_params, with why.
[[nodiscard]] Status check_url(std::string_view url, PlainHttp plain_http);
/// Whether a reply of `from` may send the reader to `to`: never from https to http.
[[nodiscard]] Status check_redirect(std::string_view from, std::string_view to,
                                    PlainHttp plain_http);
/// Of a name that an index gives. Error: runtime.
[[nodiscard]] Status check_file_name(std::string_view file);

struct SourceAddress {
  bool is_remote = false;
  std::string root;         ///< a folder, or a base URL without a slash at its end
  std::string single_file;  ///< its name, decoded; empty: what the checkpoint's index says

  /// Error: invalid_params naming `source`.
  [[nodiscard]] static Result<SourceAddress> parse(const std::string& source, PlainHttp plain_http);

  /// Of a file below the root.
  [[nodiscard]] std::string url_of(std::string_view file) const;

  /// The same at one commit of its repository, where the URL has a hub's form
  /// `.../resolve/<revision>` and `commit` is the whole name of one (40 or 64 hexadecimal digits).
  [[nodiscard]] std::optional<SourceAddress> at_commit(std::string_view commit) const;
};

}  // namespace tenzro::prepare
