#pragma once
/// \file
/// HttpNode: a node at the end of a URL.
///
/// Rules
///  - One connection, kept for the life of the object. Connecting takes kConnectTimeout at most, a
///    request `timeout`, an upload as long as bytes keep moving.
///  - Only http and https; no redirects; no proxy for a loopback address.
///  - An answer above kAnswerBytesMax is refused before it fills the memory.
///  - Ctrl-C ends a transfer (ExitCode::interrupted).
/// The `Authorization: Bearer` header carries `token` where there is one.
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "node.hpp"

namespace tenzro::cli {

struct Settings {
  std::string rpc_url = "http://127.0.0.1:8545";
  /// Print the raw result.
  bool json = false;
  std::chrono::seconds timeout{120};
  /// From the environment, TENZRO_TOKEN: a command line is visible to other users.
  std::string token;
  /// PEM of the authorities to trust instead of the system's; empty: the system's.
  std::string ca_file;
};

/// `host:port` becomes `http://host:port`; a slash at the end is dropped. A usage failure, without
/// the flag's name, for other schemes, a user, a query, a fragment, and for what is no URL.
[[nodiscard]] Outcome<std::string> normalise_url(std::string_view text);

/// What an answer to a call means: the result, or why there is none.
[[nodiscard]] Outcome<Json> read_answer(long status, std::string_view body);

class HttpNode final : public Node {
 public:
  static constexpr std::chrono::seconds kConnectTimeout{5};
  static constexpr std::size_t kAnswerBytesMax = 256UL << 20U;

  /// `settings.rpc_url` as normalise_url gives it.
  explicit HttpNode(Settings settings);
  ~HttpNode() override;
  HttpNode(const HttpNode&) = delete;
  HttpNode& operator=(const HttpNode&) = delete;

  [[nodiscard]] Outcome<Json> call(const Request& request) override;
  [[nodiscard]] Outcome<Page> get(const std::string& path) override;
  [[nodiscard]] Outcome<std::string> upload(const std::string& path) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenzro::cli
