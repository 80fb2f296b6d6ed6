#pragma once
/// \file
/// RequestParser: the bytes of one request to its head, and a chunked body to plain bytes.
///
/// A body with a Content-Length does not pass through here: it needs no parsing. Only this file's
/// implementation knows the parser library. Thread: the loop's.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "request_head.hpp"

namespace tenzro::http {

class RequestParser {
 public:
  enum class Outcome : std::uint8_t {
    need_input,  ///< all bytes given that can be used now were used
    need_space,  ///< the output is full
    done,        ///< the head, or the body, is complete
    bad,         ///< not HTTP/1.1, or a line of head or trailers that is folded (RFC 9112, 5.2)
    too_large,   ///< above header_bytes_max or the body limit
  };

  struct Step {
    Outcome outcome = Outcome::need_input;
    std::size_t consumed = 0;
    std::size_t produced = 0;
  };

  explicit RequestParser(std::size_t header_bytes_max);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Unconsumed bytes must be given again, with more behind them.
  [[nodiscard]] Step feed_head(std::string_view bytes);
  /// Whether a byte of the request has been consumed.
  [[nodiscard]] bool has_begun() const;
  /// Requires that feed_head said done.
  [[nodiscard]] RequestHead head() const;

  /// Requires a chunked head. The limit is on the decoded body.
  void limit_body(std::uint64_t bytes_max);
  [[nodiscard]] Step feed_chunked(std::string_view bytes, std::span<std::byte> output);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenzro::http
