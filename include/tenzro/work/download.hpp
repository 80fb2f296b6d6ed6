#pragma once
/// \file
/// Bytes of files on web servers, as values: what a core asks for, and what came.
///
/// A download is answered once (Node::on_downloaded) unless it was cancelled, with a CancelCall.
/// Whoever carries it follows no redirect, judges no status and asks nothing again: that is the
/// core's. What a core no longer wants it ignores.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/time.hpp"

namespace tenzro::work {

/// What shows the server who asks. The core names it; only the carrier knows it.
enum class Credential : std::uint8_t {
  none,
  hub_token,       ///< the operator's token for the model hub
  node_signature,  ///< of this node, for another node's HTTP server
};

/// GET of the bytes [offset, offset + room.size()) of a file. They are written to `room`, which
/// lies in `buffer` and is nobody else's before the answer.
struct Download {
  PeerCallId id{};
  std::string url;
  std::uint64_t offset = 0;
  BufferRef buffer;
  std::span<std::byte> room;
  Credential credential = Credential::none;
};

struct Downloaded {
  /// Of HTTP; 0: none came.
  int status = 0;
  /// Bytes of the file at the start of `room`; also where it broke off.
  std::size_t received = 0;
  /// Where in the file they begin.
  std::uint64_t first = 0;
  /// Size of the whole file, where the server tells it.
  std::optional<std::uint64_t> file_bytes = std::nullopt;
  /// The file's ETag, else when it was changed; empty where the server tells neither.
  std::string version = {};
  /// The commit of the repository that it is of (X-Repo-Commit); empty where not told.
  std::string commit = {};
  /// Where a redirect leads, absolute; empty: nowhere.
  std::string location = {};
  /// For how long the server wants to be left alone.
  std::optional<Duration> wait = std::nullopt;
  /// Why it broke off; empty: it did not.
  std::string failure = {};
  /// It broke off because hardly anything came.
  bool is_slow = false;
  /// The same would happen again: a certificate that is not valid, a URL that is none.
  bool is_final = false;
};

}  // namespace tenzro::work
