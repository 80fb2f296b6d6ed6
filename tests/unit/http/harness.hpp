#pragma once
/// \file
/// A real server on a loop of its own, a node that does what a test tells it, and a blocking
/// client.
///
/// The node (TestServer) answers a JSON-RPC body by its text: "hold" is kept for the test to
/// answer, "notify" gets 204, anything else is echoed. Every event of the handler is queued for the
/// test. Waits have a deadline (kPatience) and end as soon as what they wait for is there.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tenzro/exec/loop.hpp"
#include "tenzro/http/server.hpp"

namespace tenzro::http {

inline constexpr std::chrono::seconds kPatience{20};

struct Event {
  enum class Kind { rpc, page, blob, piece_wanted, put_begun, put_piece, put_ended, gone, none };
  Kind kind = Kind::none;
  RequestRef id{};
  std::string text{};  ///< body or piece
  Caller caller{};
  Page page = Page::healthz;
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::optional<std::uint64_t> declared{};
};

class TestServer final : public Handler {
 public:
  explicit TestServer(Options options = {});
  ~TestServer() override;

  /// What `GET /blob/<any hash>` serves; nothing: 404. Set before any request.
  std::optional<std::string> blob;
  /// The answer to a JSON-RPC body; an empty one holds it. Set before any request.
  std::function<std::string(std::string_view body)> answer;
  /// Pieces are asked for and uploads answered 201 without the test's help.
  bool takes_uploads = true;

  /// The next event of `kind`, older ones of other kinds thrown away; kind none after kPatience.
  [[nodiscard]] Event wait_for(Event::Kind kind);
  /// Runs on the loop's thread and waits for it.
  void on_loop(const std::function<void(Server&)>& task);
  [[nodiscard]] bool eventually(const std::function<bool(const Stats&)>& holds);
  void reply(RequestRef id, int status, std::string_view text);
  void drain();
  [[nodiscard]] bool wait_drained();

  [[nodiscard]] std::uint16_t port() const { return port_; }

  [[nodiscard]] Stats stats();

  void on_rpc(RequestRef id, BufferRef body, const Caller& caller) override;
  void on_page(RequestRef id, Page page) override;
  void on_blob(RequestRef id, const BlobHash& hash, const Caller& caller) override;
  void on_blob_piece_wanted(RequestRef id, const BlobHash& hash, std::uint64_t offset,
                            std::size_t size) override;
  void on_put_begun(RequestRef id, std::optional<std::uint64_t> size) override;
  void on_put_piece(RequestRef id, BufferRef piece) override;
  void on_put_ended(RequestRef id) override;
  void on_request_gone(RequestRef id) override;

 private:
  void push(Event event);

  exec::Loop loop_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  bool is_drained_ = false;
  std::thread thread_;
};

struct Response {
  int status = 0;  ///< 0: the connection ended instead
  std::map<std::string, std::string> headers;
  std::string body;
};

/// A plain TCP connection. Every operation fails after kPatience instead of hanging.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  [[nodiscard]] bool is_connected() const { return fd_ >= 0; }

  /// False where the peer has closed.
  bool send(std::string_view bytes) const;
  /// `has_body` false: the answer to HEAD, or an interim answer.
  [[nodiscard]] Response receive(bool has_body = true);
  /// Everything up to the end of the connection.
  [[nodiscard]] std::string receive_all();
  /// Whether the peer ends the connection without sending another byte.
  [[nodiscard]] bool sees_end();
  void close();
  /// Ends the connection with a reset.
  void reset();

 private:
  bool fill();

  int fd_ = -1;
  std::string buffer_;
};

/// The defaults, changed by `change`.
[[nodiscard]] Options options_with(const std::function<void(Options&)>& change);

/// A POST / with the headers a well-behaved client sends, then `extra` (each line with CRLF).
[[nodiscard]] std::string post(std::string_view body, std::string_view extra = "");
[[nodiscard]] std::string get(std::string_view path, std::string_view extra = "");

/// One request on a connection of its own.
[[nodiscard]] Response ask(std::uint16_t port, std::string_view request);

/// Splits the head of an answer; used by clients of other transports too.
[[nodiscard]] Response parse_head(std::string_view head);

}  // namespace tenzro::http
