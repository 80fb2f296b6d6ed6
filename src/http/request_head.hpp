#pragma once
/// \file
/// RequestHead: the facts of a request's head that this server looks at.
#include <cstdint>
#include <optional>
#include <string>

namespace tenzro::http {

enum class Method : std::uint8_t { get, head, post, put, other };
enum class Expectation : std::uint8_t { none, continue_100, other };

struct RequestHead {
  Method method = Method::other;
  std::string target;
  bool is_http_1_0 = false;
  bool keep_alive = false;

  /// Fields that may not repeat are counted; the text is the first one's.
  unsigned hosts = 0;
  std::string host;
  unsigned authorizations = 0;
  std::string authorization;
  std::string content_type;
  std::string content_encoding;
  std::string range;
  std::string if_range;
  std::string node;
  std::string node_time;
  std::string node_signature;

  std::optional<std::uint64_t> content_length;
  bool is_chunked = false;
  /// A Transfer-Encoding that is not exactly `chunked`.
  bool has_unknown_coding = false;
  Expectation expectation = Expectation::none;

  [[nodiscard]] bool has_body() const { return is_chunked || content_length.value_or(0) != 0; }
};

}  // namespace tenzro::http
