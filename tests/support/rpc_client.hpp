#pragma once
/// \file
/// JSON-RPC over HTTP as a foreign client would send it, and raw bytes for those that would not.
#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace tenzro::testing {

struct HttpAnswer {
  int status = 0;                              ///< 0: no answer at all
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

class RpcClient {
 public:
  /// "127.0.0.1:port"
  explicit RpcClient(std::string address) : address_(std::move(address)) {}

  /// The whole reply object: result or error.
  [[nodiscard]] nlohmann::json call(const std::string& method, const nlohmann::json& params) const;
  /// The result; a test failure, with the error, where there is none.
  [[nodiscard]] nlohmann::json result(const std::string& method,
                                      const nlohmann::json& params) const;
  /// `POST /` with the JSON content type.
  [[nodiscard]] HttpAnswer post(const std::string& body) const;
  [[nodiscard]] HttpAnswer send(const std::string& method, const std::string& path,
                                const std::map<std::string, std::string>& headers,
                                const std::string& body) const;
  /// Sends `bytes` on a connection of its own and reads until the other side closes.
  [[nodiscard]] std::string raw(const std::string& bytes) const;
  /// Sends `bytes` and waits until an answer comes, but takes none of it. Gives the connection,
  /// which `read_rest` reads until the other side closes, and closes.
  [[nodiscard]] int ask_without_reading(const std::string& bytes) const;
  static std::string read_rest(int fd);
  /// Sends `bytes` and closes without reading.
  void send_and_leave(const std::string& bytes) const;

 private:
  std::string address_;
};

[[nodiscard]] std::string base64_of(const std::string& bytes);
[[nodiscard]] std::string bytes_of_base64(const std::string& text);

}  // namespace tenzro::testing
