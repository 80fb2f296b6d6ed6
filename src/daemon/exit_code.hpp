#pragma once

/// \file
/// What the process says with its exit status; docs/hacking.md lists them for operators.

namespace tenzro::daemon {

enum class ExitCode : int {
  done = 0,
  failed = 1,        ///< a bug of ours, or a shutdown that had to be forced
  usage = 2,         ///< flags or configuration; also listening off loopback without tokens
  locked = 3,        ///< another process has the data directory
  storage = 4,       ///< the data directory cannot be used: permissions, full disk, damage
  address_busy = 5,  ///< an address cannot be listened at
  backend = 6,       ///< the compute backend or instruction set asked for is not there
};

}  // namespace tenzro::daemon
