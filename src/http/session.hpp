#pragma once
/// \file
/// Session: one connection and the requests on it, one after the other.
///
/// Phases
///  - handshake, head, body: receiving. An upload's body is received as the node asks for it.
///  - pending: the node works; the connection is read on, so that its end is seen.
///  - replying: the answer is written, piece by piece for a blob.
///  - lingering: the answer is out and the connection is to end; what still comes is discarded.
///  - closed.
/// One read and one write are in flight at most. A read into a body's buffer is in flight only
/// while the session keeps that body: a body is let go only after its last byte has come, or with
/// the session itself.
/// Every I/O handler holds the session; the server holds it until `close`. Thread: the loop's.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "body.hpp"
#include "deadline.hpp"
#include "input.hpp"
#include "request_parser.hpp"
#include "route.hpp"
#include "shared.hpp"
#include "transport.hpp"

namespace tenzro::http {

class Session final : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Shared> shared, std::unique_ptr<Transport> transport);

  void start();
  /// Ends the connection, unless a request on it has to be finished first.
  void drain();
  void close();

  void reply(const Reply& reply);
  void serve_blob(std::uint64_t size);
  void send_piece(const BufferRef& piece);
  void abort_blob();
  void put_continue();

  /// Whether a request is being received, worked on or answered.
  [[nodiscard]] bool is_busy() const {
    return phase_ == Phase::body || phase_ == Phase::pending || phase_ == Phase::replying;
  }

 private:
  enum class Phase : std::uint8_t { handshake, head, body, pending, replying, lingering, closed };
  enum class ReadInto : std::uint8_t { input, body };
  using Next = void (Session::*)();

  /// One write: a head, a body, and what happens once both are out.
  struct Outgoing {
    std::string head;
    BufferRef body;
    Next next = nullptr;
    std::shared_ptr<const void> held = nullptr;  ///< until all of it is sent
  };

  // Receiving (session.cpp).
  void on_handshake(std::error_code error);
  void begin_request(Duration wait);
  void continue_head();
  void on_head();
  void begin_body(Body::Kind kind, std::uint64_t bytes_max);
  void continue_body();
  void on_body_done();
  void deliver_piece();
  void read();
  void on_read(std::error_code error, std::size_t bytes, ReadInto into);
  void on_peer_end();
  void on_timeout();

  // Answering (session_reply.cpp).
  void announce();
  void end_request();
  void notify_gone();
  void refuse(const Refusal& refusal);
  void begin_reply(const Reply& reply);
  void finish_reply();
  void want_piece();
  void on_piece_sent();
  void linger();
  void send(Outgoing outgoing);
  void write();
  void on_written(std::error_code error, std::size_t bytes);

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<Transport> transport_;
  std::string arrived_at_;
  bool is_loopback_peer_ = false;
  Input input_;
  std::optional<Deadline> deadline_;

  Phase phase_ = Phase::handshake;
  bool is_reading_ = false;
  bool has_peer_ended_ = false;

  // The request at hand.
  std::unique_ptr<RequestParser> parser_;
  RequestHead head_;
  Route route_;
  std::optional<Body> body_;
  /// Set from the announcement to the handler until the request ends.
  std::optional<RequestRef> ref_;
  bool is_head_timed_ = false;
  bool owes_continue_ = false;
  bool wants_put_piece_ = false;
  bool keep_alive_ = false;

  // The answer at hand.
  bool is_writing_ = false;
  Outgoing outgoing_;
  std::size_t sent_ = 0;
  /// An answer that came while `100 Continue` was still being written.
  std::optional<Outgoing> queued_;
  std::string blob_head_;
  std::uint64_t blob_offset_ = 0;
  std::uint64_t blob_end_ = 0;
  std::size_t blob_wanted_ = 0;
};

}  // namespace tenzro::http
