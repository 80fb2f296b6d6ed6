#pragma once
/// \file
/// Refusal: why the server itself answers a request, and with what.
#include <string>
#include <vector>

#include "tenzro/http/server.hpp"

namespace tenzro::http {

struct Refusal {
  int status = 400;
  /// One sentence for the client.
  std::string message;
  std::vector<Header> headers;
};

/// The answer with a JSON-RPC error body, id null.
[[nodiscard]] Reply make_reply(const Refusal& refusal);

}  // namespace tenzro::http
