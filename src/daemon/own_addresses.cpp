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

}  // namespace

std::vector<std::string> reachable_addresses(const std::string& bound) {
  constexpr std::string_view kWildcards[] = {"0.0.0.0:", "[::]:"};
  std::string port;
  for (const std::string_view wildcard : kWildcards) {
    if (bound.starts_with(wildcard)) port = bound.substr(wildcard.size());
  }
  if (port.empty()) return {bound};
  std::vector<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* at = list; at != nullptr && addresses.size() < kAddressesMax;
         at = at->ifa_next) {
      const bool is_usable = at->ifa_addr != nullptr && at->ifa_addr->sa_family == AF_INET &&
                             (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
      if (!is_usable) continue;
      const void* raw = at->ifa_addr;
      char text[INET_ADDRSTRLEN] = {};
      if (inet_ntop(AF_INET, &static_cast<const sockaddr_in*>(raw)->sin_addr, text, sizeof text) !=
          nullptr)
        addresses.push_back(std::string(text) + ":" + port);
    }
    freeifaddrs(list);
  }
  addresses.push_back("127.0.0.1:" + port);
  return addresses;
}

std::string reachable_endpoint(const std::string& scheme, const std::string& rpc,
                               const std::string& quic) {
  if (is_loopback(rpc) && !is_loopback(quic)) return {};
  return scheme + reachable_addresses(rpc).front();
}

}  // namespace tenzro::daemon
