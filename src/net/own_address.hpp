#pragma once
/// \file
/// Whether an address is where this endpoint itself listens.
///
/// Why: peers announce what their interfaces say, and behind two routers the same private address
/// means two machines. Dialling oneself would look as if somebody else had answered for the peer.
#include "socket_address.hpp"

namespace tenzro::net {

/// `bound` is the socket's address; where it is a wildcard, every address of this machine with its
/// port is meant. Asks the system, and only where the ports are equal.
[[nodiscard]] bool is_own_address(const SocketAddress& address, const SocketAddress& bound);

}  // namespace tenzro::net
