#include "own_address.hpp"

#include <ifaddrs.h>

namespace tenzro::net {
namespace {

/// The text of an address, without its port.
std::string host_of(const SocketAddress& address) {
  const std::string text = address.text();
  return text.substr(0, text.rfind(':'));
}

std::string port_of(const SocketAddress& address) {
  const std::string text = address.text();
  return text.substr(text.rfind(':'));
}

socklen_t size_of(const sockaddr& address) {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

bool is_of_this_machine(const std::string& host) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  bool is_found = false;
  for (const ifaddrs* at = list; at != nullptr && !is_found; at = at->ifa_next) {
    const sockaddr* own = at->ifa_addr;
    if (own == nullptr || (own->sa_family != AF_INET && own->sa_family != AF_INET6)) continue;
    is_found = host_of(SocketAddress(own, size_of(*own))) == host;
  }
  freeifaddrs(list);
  return is_found;
}

}  // namespace

bool is_own_address(const SocketAddress& address, const SocketAddress& bound) {
  if (port_of(address) != port_of(bound)) return false;
  const std::string host = host_of(address);
  const std::string bound_host = host_of(bound);
  if (bound_host != "0.0.0.0" && bound_host != "[::]") return host == bound_host;
  return address.is_loopback() || host == "0.0.0.0" || host == "[::]" || is_of_this_machine(host);
}

}  // namespace tenzro::net
