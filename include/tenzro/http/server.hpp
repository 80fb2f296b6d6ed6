#pragma once
/// \file
/// Server: HTTP/1.1 for JSON-RPC, pages and blobs, on the node's loop.
///
/// | request                               | answer |
/// |---------------------------------------|--------|
/// | POST /                                | Handler::on_rpc |
/// | GET, HEAD /metrics /healthz /readyz   | Handler::on_page (metrics: read scope where tokens
/// exist) | | GET, HEAD /blob/<64 hex digits>       | Handler::on_blob, with Range | | PUT /blob |
/// Handler::on_put_begun (admin scope) | | another method / path                 | 405 with Allow /
/// 404 |
///
/// Rules
///  - `Host` must name this server (its listen address, localhost, or `allowed_hosts`): 403
///    otherwise; empty, missing (HTTP/1.1), doubled or malformed: 400. Why: a web page must not
///    reach a loopback node by pointing its own name at 127.0.0.1. No CORS header is ever sent.
///  - A JSON-RPC body needs `Content-Type: application/json`: 415. Why: a browser sends that type
///    across origins only after a preflight, which gets a 405.
///  - Requests on one connection are answered in order, one at a time; while one is pending the
///    connection is still read, so that a client's leaving is seen at once.
///  - A body with a Content-Length is received straight into one buffer of that size. It counts
///    against `bodies_bytes_max` until the request ends; beyond that: 503 with Retry-After.
///  - Every refusal carries a JSON-RPC error body. Where the request's body is still unread, the
///    connection ends after the answer: the server stops sending, discards what arrives for
///    `linger_timeout` at most, and closes, so that the answer is not lost in a reset.
///  - Time: headers `header_timeout` in all; a body or an answer `idle_timeout` without progress;
///    between requests `keep_alive_timeout`. A pending request has no time limit here.
/// Limits are the Options. Cost: O(log n) a request. Thread: the loop's only.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/exec/loop.hpp"
#include "tenzro/http/handler.hpp"
#include "tenzro/http/listen_address.hpp"
#include "tenzro/http/token_table.hpp"

namespace tenzro::http {

struct Options {
  ListenAddress listen{.host = "127.0.0.1", .port = 8545};
  /// Names a client may call this server besides localhost, the loopback addresses, the listen
  /// address and (when that is a wildcard) the address the connection arrived at. Ports are
  /// ignored.
  std::vector<std::string> allowed_hosts;
  std::size_t header_bytes_max = 16UL << 10U;
  /// A JSON-RPC body; 413 beyond it.
  std::size_t body_bytes_max = 64UL << 20U;
  /// An uploaded blob; 413 beyond it.
  std::uint64_t put_bytes_max = 64ULL << 30U;
  /// All JSON-RPC bodies and upload pieces in memory together.
  std::size_t bodies_bytes_max = 512UL << 20U;
  /// Beyond it a new connection gets 503 and is closed.
  std::size_t connections_max = 1024;
  Duration header_timeout = std::chrono::seconds(10);
  Duration idle_timeout = std::chrono::seconds(60);
  Duration keep_alive_timeout = std::chrono::seconds(60);
  Duration linger_timeout = std::chrono::seconds(5);
  /// PEM files; both or neither. TLS 1.2 and newer.
  std::string tls_cert_file;
  std::string tls_key_file;
  TokenTable tokens;
};

struct Header {
  std::string name;
  std::string value;
};

/// `status` 204 has no body. Header names, values and the content type hold no line breaks.
struct Reply {
  int status = 200;
  std::string content_type;
  BufferRef body;
  std::vector<Header> headers;
  /// Let go of once the reply has been sent, or dropped.
  std::shared_ptr<const void> held = nullptr;
};

/// Counters since the start, for the metrics page.
struct Stats {
  std::uint64_t connections_open = 0;
  std::uint64_t connections = 0;
  std::uint64_t requests = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bodies_bytes = 0;
  /// By status, the server's own refusals only.
  std::map<int, std::uint64_t> refusals;
};

class Server {
 public:
  /// Binds and listens. `loop` and `handler` must outlive the server; the handler is called from
  /// the loop only.
  [[nodiscard]] static Result<std::unique_ptr<Server>> listen(exec::Loop& loop, Options options,
                                                              Handler& handler);
  /// Closes every connection at once; calls nothing of the handler.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void reply(RequestRef id, const Reply& reply);
  /// Answers on_blob: the blob has `size` bytes, and its pieces may be asked for.
  void serve_blob(RequestRef id, std::uint64_t size);
  /// Answers on_blob_piece_wanted with exactly the bytes asked for.
  void send_piece(RequestRef id, const BufferRef& piece);
  /// The rest of a blob cannot be had: 500 where nothing was sent yet, else the connection breaks.
  void abort_blob(RequestRef id);
  /// Asks for the next piece of an upload, or for its end.
  void put_continue(RequestRef id);

  /// Stops accepting, closes idle connections, finishes requests that have begun; then
  /// `on_drained`, once, from the loop. The caller bounds the wait and destroys the server.
  void drain(std::function<void()> on_drained);

  /// What is really listened at, with the chosen port.
  [[nodiscard]] const ListenAddress& address() const;
  [[nodiscard]] Stats stats() const;

 private:
  class State;
  explicit Server(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace tenzro::http
