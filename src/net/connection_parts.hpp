#pragma once
/// \file
/// What a connection is made of: what all of an endpoint share, and how one is begun.
#include <cstdint>
#include <optional>
#include <vector>

#include "tenzro/net/endpoint.hpp"

#include "ngtcp2_compat.hpp"
#include "packet_batch.hpp"
#include "tls.hpp"
#include "udp_socket.hpp"

namespace tenzro::net {

using LimitsOf = wire::ProtocolLimits (*)(wire::Protocol);

/// What all connections of an endpoint share.
struct ConnectionContext {
  UdpSocket& socket;
  TlsIdentity& identity;
  const Options& options;
  LimitsOf limits = wire::limits_of;
  /// Makes the tokens with which this endpoint, restarted, can end connections it forgot.
  Hash32 reset_secret{};
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(PacketBatch::kBufferBytes);
};

/// Until there is a connection, and a stream on it.
struct WaitingCall {
  PeerCallId call{};
  std::vector<BufferRef> parts;
};

struct DialOptions {
  SocketAddress to;
  std::optional<EndpointId> expected;
  wire::Protocol protocol = wire::Protocol::moe;
  Duration handshake_timeout{};
};

struct AcceptOptions {
  SocketAddress from;
  const ngtcp2_pkt_hd* header = nullptr;
  /// Set where the peer came back with a Retry token: the id it first sent to.
  std::optional<ngtcp2_cid> before_retry;
};

}  // namespace tenzro::net
