#pragma once
/// \file
/// Where other nodes may reach a socket of this one.
#include <string>
#include <vector>

namespace tenzro::daemon {

/// Of the interfaces of this machine that are up and not loopback; hosts without a port.
struct HostAddresses {
  std::vector<std::string> ipv4;
  /// In brackets; none that is valid on one link alone.
  std::vector<std::string> ipv6;
};

[[nodiscard]] HostAddresses host_addresses();

/// The bound address itself; where it is a wildcard, its port at each IPv4 address of `host`, and
/// after them at the IPv6 ones where the socket takes those: eight at most. Loopback only where
/// there is no other: it would lead other machines to themselves.
[[nodiscard]] std::vector<std::string> reachable_addresses(const std::string& bound,
                                                           const HostAddresses& host);
[[nodiscard]] std::vector<std::string> reachable_addresses(const std::string& bound);

/// What to announce for the JSON-RPC listener bound at `rpc`, where the configuration says nothing;
/// `quic` is where QUIC is bound, `scheme` "http://" or "https://". Empty where only this machine
/// reaches the listener while others reach QUIC: they would call themselves.
[[nodiscard]] std::string reachable_endpoint(const std::string& scheme, const std::string& rpc,
                                             const std::string& quic);

}  // namespace tenzro::daemon
