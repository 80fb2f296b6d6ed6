#pragma once
/// \file
/// Where other nodes may reach a socket of this one.
#include <string>
#include <vector>

namespace tenzro::daemon {

/// The bound address itself; where it is the wildcard, its port at each IPv4 address of this
/// machine that is up, loopback last.
[[nodiscard]] std::vector<std::string> reachable_addresses(const std::string& bound);

}  // namespace tenzro::daemon
