#pragma once
/// \file
/// Node: the node a command talks to, as commands see it.
#include <cstdint>
#include <string>

#include "json.hpp"
#include "outcome.hpp"

namespace tenzro::cli {

struct Request {
  std::string method;
  Json params = Json::object();
};

struct Page {
  long status = 0;
  std::string body;
};

class Node {
 public:
  virtual ~Node() = default;

  /// The result; a JSON-RPC error is a Failure `refused`, with its code and message.
  [[nodiscard]] virtual Outcome<Json> call(const Request& request) = 0;
  /// `GET path`, whatever its status.
  [[nodiscard]] virtual Outcome<Page> get(const std::string& path) = 0;
  /// Streams a file to `PUT /blob`; the URI it then has.
  [[nodiscard]] virtual Outcome<std::string> upload(const std::string& path) = 0;
};

}  // namespace tenzro::cli
