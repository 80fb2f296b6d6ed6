#include "own_addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace tenzro::daemon {
namespace {

/// Records carry at most 16; the rest is left out.
constexpr std::size_t kAddressesMax = 8;

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("[::1]:");
}

void add_address(const sockaddr& address, HostAddresses& host) {
  const void* raw = &address;
  char text[INET6_ADDRSTRLEN] = {};
  if (address.sa_family == AF_INET) {
    const in_addr& ip = static_cast<const sockaddr_in*>(raw)->sin_addr;
    if (inet_ntop(AF_INET, &ip, text, sizeof text) != nullptr) host.ipv4.emplace_back(text);
  } else if (address.sa_family == AF_INET6) {
    const in6_addr& ip = static_cast<const sockaddr_in6*>(raw)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&ip) && inet_ntop(AF_INET6, &ip, text, sizeof text) != nullptr)
      host.ipv6.push_back("[" + std::string(text) + "]");
  }
}

}  // namespace

HostAddresses host_addresses() {
  HostAddresses host;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return host;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const bool is_up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (at->ifa_addr != nullptr && is_up) add_address(*at->ifa_addr, host);
  }
  freeifaddrs(list);
  return host;
}

std::vector<std::string> reachable_addresses(const std::string& bound, const HostAddresses& host) {
  constexpr std::string_view kIpv4Wildcard = "0.0.0.0:";
  constexpr std::string_view kBothWildcard = "[::]:";
  const bool takes_ipv6 = bound.starts_with(kBothWildcard);
  if (!takes_ipv6 && !bound.starts_with(kIpv4Wildcard)) return {bound};
  const std::string port = bound.substr(bound.rfind(':'));
  std::vector<std::string> addresses;
  for (const std::string& ip : host.ipv4) addresses.push_back(ip + port);
  if (takes_ipv6) {
    for (const std::string& ip : host.ipv6) addresses.push_back(ip + port);
  }
  if (addresses.empty()) addresses.push_back("127.0.0.1" + port);
  if (addresses.size() > kAddressesMax) addresses.resize(kAddressesMax);
  return addresses;
}

std::vector<std::string> reachable_addresses(const std::string& bound) {
  return reachable_addresses(bound, host_addresses());
}

std::string reachable_endpoint(const std::string& scheme, const std::string& rpc,
                               const std::string& quic) {
  if (is_loopback(rpc) && !is_loopback(quic)) return {};
  return scheme + reachable_addresses(rpc).front();
}

}  // namespace tenzro::daemon
