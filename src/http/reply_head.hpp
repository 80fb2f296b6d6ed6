#pragma once
/// \file
/// The head of an answer as bytes.
#include <cstdint>
#include <string>

#include "tenzro/http/server.hpp"

namespace tenzro::http {

enum class KeepAlive : std::uint8_t { no, yes };

/// Status line to blank line. `length` is the Content-Length (left out for 204). Asserts that no
/// value holds a line break: all of them are this program's own.
[[nodiscard]] std::string reply_head(const Reply& reply, std::uint64_t length,
                                     KeepAlive keep_alive);

}  // namespace tenzro::http
