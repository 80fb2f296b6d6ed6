#include "socket_address.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>

namespace tenzro::net {
namespace {

constexpr std::size_t kHostBytesMax = 253;

sockaddr_in as_ipv4(const sockaddr_storage& storage) {
  sockaddr_in address{};
  std::memcpy(&address, &storage, sizeof address);
  return address;
}

sockaddr_in6 as_ipv6(const sockaddr_storage& storage) {
  sockaddr_in6 address{};
  std::memcpy(&address, &storage, sizeof address);
  return address;
}

template <typename Address>
SocketAddress wrap(const Address& address) {
  const void* raw = &address;
  return {static_cast<const sockaddr*>(raw), sizeof address};
}

}  // namespace

std::optional<HostPort> HostPort::parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  if (host.empty() || host.size() > kHostBytesMax) return std::nullopt;
  HostPort parsed{.host = std::string(host)};
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, parsed.port);
  if (error != std::errc{} || stop != end || digits.empty()) return std::nullopt;
  return parsed;
}

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size)
    : size_(std::min<socklen_t>(size, sizeof storage_)) {
  std::memcpy(&storage_, address, size_);
}

std::optional<SocketAddress> SocketAddress::parse(std::string_view text) {
  const std::optional<HostPort> where = HostPort::parse(text);
  if (!where) return std::nullopt;
  return of(*where);
}

std::optional<SocketAddress> SocketAddress::of(const HostPort& where) {
  sockaddr_in ipv4{};
  if (inet_pton(AF_INET, where.host.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(where.port);
    return wrap(ipv4);
  }
  sockaddr_in6 ipv6{};
  if (inet_pton(AF_INET6, where.host.c_str(), &ipv6.sin6_addr) == 1) {
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(where.port);
    return wrap(ipv6);
  }
  return std::nullopt;
}

bool SocketAddress::is_ipv4_mapped() const {
  if (family() != AF_INET6) return false;
  const sockaddr_in6 address = as_ipv6(storage_);
  return IN6_IS_ADDR_V4MAPPED(&address.sin6_addr);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    return ntohl(as_ipv4(storage_).sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
  }
  if (family() != AF_INET6) return false;
  const sockaddr_in6 address = as_ipv6(storage_);
  if (is_ipv4_mapped()) return address.sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
  return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
}

std::optional<SocketAddress> SocketAddress::for_family(int family) const {
  if (this->family() == family) return *this;
  if (family != AF_INET6) return std::nullopt;
  const sockaddr_in from = as_ipv4(storage_);
  sockaddr_in6 mapped{};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = from.sin_port;
  mapped.sin6_addr.s6_addr[10] = 0xff;
  mapped.sin6_addr.s6_addr[11] = 0xff;
  std::memcpy(&mapped.sin6_addr.s6_addr[12], &from.sin_addr, sizeof from.sin_addr);
  return wrap(mapped);
}

std::string SocketAddress::text() const {
  char host[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET) {
    const sockaddr_in address = as_ipv4(storage_);
    inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
    return std::string(host) + ":" + std::to_string(ntohs(address.sin_port));
  }
  const sockaddr_in6 address = as_ipv6(storage_);
  const std::string port = std::to_string(ntohs(address.sin6_port));
  if (is_ipv4_mapped()) {
    inet_ntop(AF_INET, &address.sin6_addr.s6_addr[12], host, sizeof host);
    return std::string(host) + ":" + port;
  }
  inet_ntop(AF_INET6, &address.sin6_addr, host, sizeof host);
  return "[" + std::string(host) + "]:" + port;
}

SocketAddress::Network SocketAddress::network() const {
  Network network{};
  const auto ipv6 = for_family(AF_INET6);
  if (!ipv6) return network;
  const sockaddr_in6 address = as_ipv6(ipv6->storage_);
  const std::size_t prefix = ipv6->is_ipv4_mapped() ? network.size() : network.size() / 2;
  std::copy_n(std::begin(address.sin6_addr.s6_addr), prefix, network.begin());
  return network;
}

const sockaddr* SocketAddress::raw() const {
  const void* address = &storage_;
  return static_cast<const sockaddr*>(address);
}

sockaddr* SocketAddress::raw() {
  void* address = &storage_;
  return static_cast<sockaddr*>(address);
}

ngtcp2_addr SocketAddress::for_path() const {
  // ngtcp2 copies addresses and never writes through this pointer, whose type has no const in 0.12.
  return {const_cast<sockaddr*>(raw()), size_};
}

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  return a.size_ == b.size_ && std::memcmp(&a.storage_, &b.storage_, a.size_) == 0;
}

}  // namespace tenzro::net
