#pragma once
/// \file
/// What is done with a datagram that belongs to no connection: a new one, an answer without one, or
/// nothing.
///
/// Rules
///  - An Initial packet begins a connection. While kRetryFrom inbound handshakes are unfinished,
///  its
///    sender must first come back with a token (Retry), which proves its address; from kHalfOpenMax
///    on, or kHalfOpenOfOneMax of its own network, it is dropped, so that one host does not shut
///    the door to all. Beyond the limits of connections it is refused.
///  - Another version is answered with the versions we speak; a packet of a connection that we
///    forgot with a stateless reset, shorter than the packet.
///  - Answers without a connection are limited to kAnswersPerSecond: nobody may use this node to
///    send packets to somebody else. No answer is longer than what it answers.
#include <array>
#include <optional>

#include "tenzro/base/ids.hpp"

#include "connection.hpp"
#include "datagram.hpp"
#include "udp_socket.hpp"

namespace tenzro::net {

class Doorkeeper {
 public:
  static constexpr std::size_t kRetryFrom = 64;
  static constexpr std::size_t kHalfOpenMax = 1024;
  static constexpr std::size_t kHalfOpenOfOneMax = 128;
  static constexpr std::uint64_t kAnswersPerSecond = 1000;

  struct Load {
    std::size_t half_open = 0;
    /// Of them, those of the sender's network that came with a token. Others may be forged.
    std::size_t half_open_of_sender = 0;
    bool is_full = false;  ///< no connection more
  };

  struct Counts {
    std::uint64_t retries = 0;
    std::uint64_t stateless_resets = 0;
    std::uint64_t dropped = 0;
  };

  /// What may begin; `header` points into the datagram.
  struct Admitted {
    ngtcp2_pkt_hd header{};
    std::optional<ngtcp2_cid> before_retry;
  };

  Doorkeeper(ConnectionContext& context, std::size_t retry_from);

  [[nodiscard]] std::optional<Admitted> admit(const Datagram& datagram, const DatagramHead& head,
                                              const Load& load, ngtcp2_tstamp now);

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  [[nodiscard]] bool may_answer(ngtcp2_tstamp now);
  void send(const Datagram& to, std::span<const std::uint8_t> packet);
  void send_versions(const Datagram& datagram, const DatagramHead& head);
  void send_retry(const Datagram& datagram, const ngtcp2_pkt_hd& header, ngtcp2_tstamp now);
  void send_refusal(const Datagram& datagram, const ngtcp2_pkt_hd& header);
  void send_stateless_reset(const Datagram& datagram, const DatagramHead& head);
  [[nodiscard]] std::optional<Admitted> check_token(const Datagram& datagram,
                                                    const ngtcp2_pkt_hd& header,
                                                    ngtcp2_tstamp now) const;

  ConnectionContext& context_;
  const std::size_t retry_from_;
  std::array<std::uint8_t, 32> token_secret_{};
  Counts counts_;
  ngtcp2_tstamp second_began_ = 0;
  std::uint64_t answers_ = 0;
};

}  // namespace tenzro::net
