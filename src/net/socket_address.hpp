#pragma once
/// \file
/// An IP address and port, as the system calls and ngtcp2 want it. A value.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <netinet/in.h>
#include <ngtcp2/ngtcp2.h>
#include <sys/socket.h>

namespace tenzro::net {

/// "host:port" or "[host]:port", taken apart; the host may be a name.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  [[nodiscard]] static std::optional<HostPort> parse(std::string_view text);
};

class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t size);

  /// Numeric hosts only.
  [[nodiscard]] static std::optional<SocketAddress> parse(std::string_view text);
  [[nodiscard]] static std::optional<SocketAddress> of(const HostPort& where);

  [[nodiscard]] int family() const { return storage_.ss_family; }

  [[nodiscard]] bool is_ipv4_mapped() const;
  /// This very host, by its loopback interface.
  [[nodiscard]] bool is_loopback() const;
  /// The same place for a socket of `family`: IPv4 becomes mapped IPv6 there. None where a socket
  /// of that family cannot reach it.
  [[nodiscard]] std::optional<SocketAddress> for_family(int family) const;
  /// "1.2.3.4:5" or "[::1]:5"; mapped addresses as IPv4.
  [[nodiscard]] std::string text() const;

  [[nodiscard]] const sockaddr* raw() const;
  [[nodiscard]] sockaddr* raw();

  [[nodiscard]] socklen_t size() const { return size_; }

  [[nodiscard]] ngtcp2_addr for_path() const;

  /// Whom a limit counts as one: an IPv4 address (mapped), or the /64 of an IPv6 address.
  using Network = std::array<std::uint8_t, 16>;
  [[nodiscard]] Network network() const;

  friend bool operator==(const SocketAddress& a, const SocketAddress& b);

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

}  // namespace tenzro::net
