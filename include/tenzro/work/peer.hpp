#pragma once
/// \file
/// What a core asks of the network: calls to peers, and replies to theirs, as values.
///
/// A call is answered once (Node::on_peer_reply) unless it was cancelled. A core that no longer
/// wants an answer ignores it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/wire/protocol.hpp"

namespace tenzro::work {

struct PeerTarget {
  /// Absent: whoever answers at the address (a bootstrap entry without a key).
  std::optional<EndpointId> id;
  /// "host:port", best first.
  std::vector<std::string> addresses;
};

/// Call a peer over QUIC.
struct SendCall {
  PeerCallId id{};
  PeerTarget target;
  wire::Protocol protocol = wire::Protocol::moe;
  std::vector<BufferRef> request;
};

/// Call a peer that has no QUIC endpoint: an HTTP POST to "http://host:port", signed by the shell.
struct SendHttpCall {
  PeerCallId id{};
  std::string endpoint;
  BufferRef body;
};

struct CancelCall {
  PeerCallId id{};
};

struct SendReply {
  PeerRequestId id{};
  std::vector<BufferRef> reply;
};

/// The bytes were not a request of that protocol: end the stream.
struct RefuseRequest {
  PeerRequestId id{};
};

struct CallReply {
  /// The key of who answered; zeros over HTTP, where nothing proves it.
  EndpointId from{};
  BufferRef bytes;
};

/// Errors: io (unreachable, reset, lost), forbidden (another key answered), runtime (the peer
/// refused the request), no_space (reply too large), busy.
using CallResult = Result<CallReply>;

/// A peer's request.
struct PeerRequest {
  PeerRequestId id{};
  EndpointId from{};
  std::string address;  ///< "ip:port" as seen here
  wire::Protocol protocol = wire::Protocol::moe;
  BufferRef bytes;
};

/// Hands out PeerCallIds; one a node.
class CallIds {
 public:
  [[nodiscard]] PeerCallId next() { return PeerCallId{++last_}; }

 private:
  std::uint64_t last_ = 0;
};

}  // namespace tenzro::work
