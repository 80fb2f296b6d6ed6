#pragma once
/// \file
/// What ngtcp2 calls while it reads and writes packets of a Connection.
#include <cstdint>

#include "connection.hpp"

namespace tenzro::net {

struct ConnectionCallbacks {
  [[nodiscard]] static ngtcp2_callbacks make(Side side);
  /// Monotonic, nanoseconds.
  [[nodiscard]] static ngtcp2_tstamp now();
  /// Writes NGTCP2_STATELESS_RESET_TOKENLEN bytes.
  [[nodiscard]] static bool make_reset_token(const ConnectionContext& context, const ngtcp2_cid& id,
                                             std::uint8_t* token);

  static int handshake_completed(ngtcp2_conn* quic, void* user);
  static int handshake_confirmed(ngtcp2_conn*, void* user);
  static int new_connection_id(ngtcp2_conn* quic, ngtcp2_cid* id, std::uint8_t* token,
                               std::size_t size, void* user);
  static int remove_connection_id(ngtcp2_conn* quic, const ngtcp2_cid* id, void* user);
  static int peer_connection_id(ngtcp2_conn* quic, compat::IdChange change, std::uint64_t sequence,
                                const ngtcp2_cid* id, const std::uint8_t* token, void* user);
  static int more_streams(ngtcp2_conn* quic, std::uint64_t max_streams, void* user);
  static int stream_open(ngtcp2_conn* quic, std::int64_t id, void* user);
  static int stream_data(ngtcp2_conn* quic, std::uint32_t flags, std::int64_t id,
                         std::uint64_t offset, const std::uint8_t* data, std::size_t size,
                         void* user, void* stream);
  static int stream_acknowledged(ngtcp2_conn* quic, std::int64_t id, std::uint64_t offset,
                                 std::uint64_t size, void* user, void* stream);
  static int stream_window(ngtcp2_conn* quic, std::int64_t id, std::uint64_t max_data, void* user,
                           void* stream);
  static int stream_reset(ngtcp2_conn* quic, std::int64_t id, std::uint64_t final_size,
                          std::uint64_t code, void* user, void* stream);
  static int stream_stop_sending(ngtcp2_conn* quic, std::int64_t id, std::uint64_t code, void* user,
                                 void* stream);
  static int stream_close(ngtcp2_conn* quic, std::uint32_t flags, std::int64_t id,
                          std::uint64_t code, void* user, void* stream);
};

}  // namespace tenzro::net
