#pragma once
/// \file
/// What a connection reports, and to whom.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tenzro/net/endpoint.hpp"

#include "ngtcp2_compat.hpp"

namespace tenzro::net {

/// Application error codes, of streams and of connections.
enum class Code : std::uint64_t { done, cancelled, refused, too_large, misbehaved, over_limit };

enum class Side : std::uint8_t { client, server };

using ResetToken = std::array<std::uint8_t, NGTCP2_STATELESS_RESET_TOKENLEN>;

class Connection;

/// One peer, over all its connections.
struct PeerAccount {
  std::size_t held = 0;  ///< bytes of messages in the making
  std::vector<Connection*> connections;
};

/// Hears what happens; only records. `Connection&` is valid until the owner deletes it.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void on_connection_id(Connection& connection, const ngtcp2_cid& id) = 0;
  virtual void on_connection_id_gone(const ngtcp2_cid& id) = 0;
  /// A datagram that ends with this token is the peer's word that it forgot the connection.
  virtual void on_reset_token(Connection& connection, const ResetToken& token) = 0;
  virtual void on_reset_token_gone(const ResetToken& token) = 0;
  /// The handshake is complete: peer and protocol are known. False ends the connection.
  [[nodiscard]] virtual bool on_connected(Connection& connection) = 0;
  virtual void on_call_ended(PeerCallId call, Result<Reply> reply) = 0;
  virtual PeerRequestId on_request(Connection& connection, std::int64_t stream,
                                   BufferRef bytes) = 0;
  virtual void on_request_gone(PeerRequestId request) = 0;
  virtual void on_black_hole() = 0;
  /// It has packets to write.
  virtual void on_dirty(Connection& connection) = 0;
  /// It is dead; its calls and requests have ended before.
  virtual void on_lost(Connection& connection, const Error& error) = 0;
};

}  // namespace tenzro::net
