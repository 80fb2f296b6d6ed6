#pragma once
/// \file
/// Gathers the packets of one write into batches of equal segments for the socket.
#include <cstdint>
#include <span>

#include "udp_socket.hpp"

namespace tenzro::net {

class PacketBatch {
 public:
  /// The loopback interface takes so much; one fills a batch.
  static constexpr std::size_t kPacketBytesMax = 65'480;
  /// Room in `buffer` for a batch and one packet more.
  static constexpr std::size_t kBufferBytes = kBatchBytesMax + kPacketBytesMax;

  PacketBatch(UdpSocket& socket, std::span<std::uint8_t> buffer)
      : socket_(socket), buffer_(buffer) {}

  /// Where the next packet, of at most `packet_max` bytes, is to be written.
  [[nodiscard]] std::span<std::uint8_t> room(std::size_t packet_max);
  /// The first `bytes` of room() are a packet. Sends what cannot go together with it.
  void add(std::size_t bytes, const ngtcp2_addr& to, std::uint8_t ecn);
  void flush();

 private:
  [[nodiscard]] bool fits(std::size_t bytes, const SocketAddress& to, std::uint8_t ecn) const;

  UdpSocket& socket_;
  std::span<std::uint8_t> buffer_;
  SocketAddress to_;
  std::uint8_t ecn_ = 0;
  std::size_t segment_ = 0;
  std::size_t count_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace tenzro::net
