#pragma once
/// \file
/// Where other nodes may reach a socket of this one.
#include <string>
#include <vector>

namespace tenzro::daemon {

/// The bound address itself; where it is the wildcard, its port at each IPv4 address of this
/// machine that is up, loopback last.
[[nodiscard]] std::vector<std::string> reachable_addresses(const std::string& bound);

/// What to announce for the JSON-RPC listener bound at `rpc`, where the configuration says nothing;
/// `quic` is where QUIC is bound, `scheme` "http://" or "https://". Empty where only this machine
/// reaches the listener while others reach QUIC: they would call themselves.
[[nodiscard]] std::string reachable_endpoint(const std::string& scheme, const std::string& rpc,
                                             const std::string& quic);

}  // namespace tenzro::daemon
