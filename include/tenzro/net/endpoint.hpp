#pragma once
/// \file
/// The QUIC endpoint: calls to peers, and requests from them, over one UDP socket.
///
/// One bidirectional stream is one call (wire/protocol.hpp). Rules
///  - A peer is its Ed25519 key: TLS 1.3 with raw public keys on both sides (RFC 7250). A peer that
///    shows another key than the one called is refused; nothing else is verified.
///  - Connections are kept and shared: one a (peer, protocol), dialled when the first call needs
///    it, closed when idle. Calls that wait for a dial fail with it.
///  - Every call ends in exactly one on_reply, unless it was cancelled: then none. Every request
///    ends in reply(), refuse(), or on_request_cancelled.
///  - What a peer may make us hold is bounded: connections, streams, bytes a stream, bytes a peer.
///    Windows are small until the peer's address is validated and its key known.
///  - Bytes handed over are kept until the peer has acknowledged them, and not copied.
/// Time limits of calls are the caller's: it cancels. Thread: the loop's only.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/exec/loop.hpp"
#include "tenzro/wire/protocol.hpp"

namespace tenzro::net {

/// Whom to call.
struct Target {
  /// Absent: whoever answers at the address (a bootstrap entry without a key).
  std::optional<EndpointId> id;
  /// "ip:port" or "host:port" or "[ipv6]:port", best first; tried in turn.
  std::vector<std::string> addresses;
};

struct Reply {
  EndpointId from{};
  BufferRef bytes;
};

struct Request {
  PeerRequestId id{};
  EndpointId from{};
  /// Where it came from, "ip:port", as seen here.
  std::string address;
  wire::Protocol protocol = wire::Protocol::moe;
  BufferRef bytes;
};

class Handler {
 public:
  virtual ~Handler() = default;
  /// Errors: io (unreachable, reset, connection lost), cancelled (the peer ended the connection, or
  /// was restarted, before it heard of the call: calling again is safe), forbidden (another key
  /// answered at every address), runtime (the peer refused the request), no_space (the reply is
  /// larger than the protocol allows), busy (a limit of this endpoint).
  virtual void on_reply(PeerCallId call, Result<Reply> reply) = 0;
  virtual void on_request(Request request) = 0;
  /// The peer reset the stream or the connection is gone: nobody waits for the reply.
  virtual void on_request_cancelled(PeerRequestId request) = 0;
};

struct Options {
  /// "ip:port"; port 0 takes a free one.
  std::string listen = "0.0.0.0:9001";
  Duration idle_timeout = std::chrono::seconds(30);
  Duration keep_alive = std::chrono::seconds(10);
  /// A dial that has not finished by then has failed.
  Duration handshake_timeout = std::chrono::seconds(5);
  /// In both directions; of inbound ones three quarters of it, so that strangers leave room for
  /// dials.
  std::size_t connections_max = 4096;
  /// Inbound streams at once, a connection.
  std::size_t streams_max = 256;
  /// Bytes of requests and replies being received, a peer; beyond it flow control holds the peer.
  /// At least 24 MiB, so that the largest message fits.
  std::size_t peer_bytes_max = 64ULL << 20U;
  std::size_t calls_max = 65'536;
  bool gso = true;
  bool gro = true;
};

/// Running totals since start, for metrics.
struct Totals {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t packets_sent = 0;
  std::uint64_t packets_received = 0;
  std::uint64_t packets_dropped = 0;  ///< not QUIC, no such connection, over a limit
  std::uint64_t handshakes = 0;
  std::uint64_t handshakes_failed = 0;
  std::uint64_t gso_fallbacks = 0;
  std::uint64_t mtu_black_holes = 0;
  std::uint64_t retries = 0;           ///< newcomers asked to prove their address
  std::uint64_t stateless_resets = 0;  ///< sent for connections not known here
  std::uint64_t requests_refused = 0;
};

class Endpoint {
 public:
  /// Errors: io, naming the address.
  [[nodiscard]] static Result<std::unique_ptr<Endpoint>> listen(exec::Loop& loop,
                                                                const crypto::KeyPair& identity,
                                                                const Options& options,
                                                                Handler& handler);
  virtual ~Endpoint() = default;
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// The bound address, "ip:port".
  [[nodiscard]] virtual std::string address() const = 0;

  /// Sends `request`, its parts one after another. Never calls the handler before it returns.
  virtual void call(PeerCallId call, const Target& target, wire::Protocol protocol,
                    std::vector<BufferRef> request) = 0;
  /// Resets the stream. Unknown ids are ignored.
  virtual void cancel(PeerCallId call) = 0;

  virtual void reply(PeerRequestId request, std::vector<BufferRef> reply) = 0;
  /// Resets the stream: the request was not one. Repeated ones close the connection.
  virtual void refuse(PeerRequestId request) = 0;

  [[nodiscard]] virtual std::size_t connections() const = 0;
  [[nodiscard]] virtual Totals totals() const = 0;

  /// Tells every peer goodbye; `done` runs when that was sent.
  virtual void close(std::function<void()> done) = 0;
};

}  // namespace tenzro::net
