#pragma once
/// \file
/// Log lines to standard error, as text or as one JSON object a line.
#include "tenzro/config/config.hpp"

namespace tenzro::daemon {

void set_up_log(const config::NodeSection& node);

}  // namespace tenzro::daemon
