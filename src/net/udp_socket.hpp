#pragma once
/// \file
/// One UDP socket: batches of datagrams in and out, with segmentation offload and ECN.
///
/// Rules
///  - Sending never blocks. What the kernel has no room for is kept (one batch), and `send` says
///    blocked; `wait_writable` tells when to go on.
///  - A batch is equal segments, the last one may be shorter; with GSO it is one system call. Where
///    the kernel or the device refuses that (EIO, EINVAL), the batch goes out in single datagrams,
///    and so does every later one.
///  - A datagram that is larger than the path takes (EMSGSIZE) is lost, as on any other hop.
/// Thread: the loop's.
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/udp.hpp>

#include "tenzro/base/result.hpp"

#include "socket_address.hpp"

namespace tenzro::net {

/// Largest batch: the largest UDP payload. The kernel takes at most 64 segments.
inline constexpr std::size_t kBatchBytesMax = 65'507;
inline constexpr std::size_t kBatchSegmentsMax = 64;

struct Batch {
  SocketAddress to;
  std::uint8_t ecn = 0;
  std::size_t segment = 0;
  std::span<const std::uint8_t> bytes;
};

struct Datagram {
  SocketAddress from;
  std::uint8_t ecn = 0;
  std::span<const std::uint8_t> bytes;
};

class UdpSocket {
 public:
  /// sendmsg, or what a test puts in its place.
  using SendMessage = std::function<ssize_t(int, const msghdr*)>;

  struct Options {
    bool gso = true;
    bool gro = true;
    SendMessage send_message;
  };

  struct Counts {
    std::uint64_t bytes_sent = 0;
    std::uint64_t bytes_received = 0;
    std::uint64_t packets_sent = 0;
    std::uint64_t packets_received = 0;
    std::uint64_t gso_fallbacks = 0;
  };

  UdpSocket(asio::io_context& context, Options options);
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  [[nodiscard]] Status open(const SocketAddress& listen);
  void close();

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }

  [[nodiscard]] const SocketAddress& local() const { return local_; }

  [[nodiscard]] const Counts& counts() const { return counts_; }

  /// The largest payload that the loopback interface takes in one datagram; 0 where it is unknown.
  [[nodiscard]] std::size_t loopback_bytes_max() const { return loopback_bytes_max_; }

  [[nodiscard]] bool is_gso_on() const { return options_.gso; }

  /// Sends, keeps, or loses the batch.
  void send(const Batch& batch);

  /// Whether a batch is kept; nothing more should be sent then.
  [[nodiscard]] bool is_blocked() const { return !kept_.empty(); }

  /// Reads what is there, up to a bound, and hands it out one datagram at a time.
  void receive(const std::function<void(const Datagram&)>& on_datagram);

  /// Waits for the next datagram; `ready` runs from the loop, with an error once closed.
  void wait_readable(std::function<void(std::error_code)> ready);
  /// Waits for room, then sends what was kept.
  void wait_writable(std::function<void(std::error_code)> ready);

 private:
  enum class Sent { yes, no_room, no_offload, lost };

  void configure(int family);
  [[nodiscard]] Sent send_once(const Batch& batch);
  [[nodiscard]] bool send_or_keep(const Batch& batch);
  void keep(const Batch& batch);
  void flush_kept();
  void hand_out(const msghdr& message, std::span<const std::uint8_t> bytes,
                const std::function<void(const Datagram&)>& on_datagram);

  Options options_;
  asio::ip::udp::socket socket_;
  SocketAddress local_;
  Counts counts_;
  std::size_t loopback_bytes_max_ = 0;
  /// The batch that waits for room, and where its bytes stand; empty where none waits.
  std::vector<std::uint8_t> kept_;
  Batch kept_batch_;
  std::vector<std::uint8_t> receive_buffer_;
};

}  // namespace tenzro::net
