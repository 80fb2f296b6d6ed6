#include "session.hpp"

#include <utility>

namespace tenzro::http {
namespace {

/// Room for a head at its limit and a good piece of what follows it.
constexpr std::size_t kInputSlackBytes = 16UL << 10U;

Refusal refusal(int status, std::string message) {
  return {.status = status, .message = std::move(message), .headers = {}};
}

Refusal too_large(std::uint64_t bytes_max) {
  return refusal(413, "the body is larger than " + std::to_string(bytes_max) + " bytes");
}

/// `::ffff:1.2.3.4` is 1.2.3.4.
asio::ip::address plain(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
}

}  // namespace

Session::Session(std::shared_ptr<Shared> shared, std::unique_ptr<Transport> transport)
    : shared_(std::move(shared)),
      transport_(std::move(transport)),
      input_(shared_->options.header_bytes_max + kInputSlackBytes) {}

void Session::start() {
  std::error_code error;
  arrived_at_ = plain(transport_->socket().local_endpoint(error).address()).to_string();
  is_loopback_peer_ = plain(transport_->socket().remote_endpoint(error).address()).is_loopback();
  deadline_.emplace(shared_->context, weak_from_this(), [this] { on_timeout(); });
  deadline_->set(shared_->options.header_timeout);
  transport_->handshake(
      [self = shared_from_this()](std::error_code failure) { self->on_handshake(failure); });
}

void Session::on_handshake(std::error_code error) {
  if (phase_ == Phase::closed) return;
  if (error) {
    close();
    return;
  }
  begin_request(shared_->options.header_timeout);
}

void Session::begin_request(Duration wait) {
  phase_ = Phase::head;
  body_.reset();
  parser_ = std::make_unique<RequestParser>(shared_->options.header_bytes_max);
  head_ = {};
  route_ = {};
  is_head_timed_ = false;
  owes_continue_ = false;
  wants_put_piece_ = false;
  keep_alive_ = false;
  deadline_->set(wait);
  shared_->check_drained();
  continue_head();
}

void Session::continue_head() {
  if (!parser_->has_begun()) {  // line ends before a request are ignored (RFC 9112, 2.2)
    const std::size_t start = input_.unread().find_first_not_of("\r\n");
    input_.consume(start == std::string_view::npos ? input_.unread().size() : start);
  }
  if (input_.unread().empty()) {
    read();
    return;
  }
  if (!is_head_timed_) {
    is_head_timed_ = true;
    deadline_->set(shared_->options.header_timeout);
  }
  const RequestParser::Step step = parser_->feed_head(input_.unread());
  input_.consume(step.consumed);
  const bool is_stuck = step.outcome == RequestParser::Outcome::need_input && input_.is_full();
  if (step.outcome == RequestParser::Outcome::too_large || is_stuck) {
    refuse(refusal(431, "the header is larger than " +
                            std::to_string(shared_->options.header_bytes_max) + " bytes"));
  } else if (step.outcome == RequestParser::Outcome::need_input) {
    read();
  } else if (step.outcome == RequestParser::Outcome::done) {
    on_head();
  } else {
    refuse(refusal(400, "this is not an HTTP/1.1 request"));
  }
}

void Session::on_head() {
  ++shared_->stats.requests;
  head_ = parser_->head();
  // A body that nobody reads makes the rest of the connection unreadable.
  keep_alive_ = head_.keep_alive && !shared_->is_draining && !head_.has_body();
  auto choice = choose_route(head_, {.hosts = shared_->hosts,
                                     .tokens = shared_->options.tokens,
                                     .arrived_at = arrived_at_,
                                     .is_loopback_peer = is_loopback_peer_});
  if (const auto* refused = std::get_if<Refusal>(&choice)) {
    refuse(*refused);
    return;
  }
  route_ = std::get<Route>(std::move(choice));
  if (route_.kind == RouteKind::rpc || route_.kind == RouteKind::put) {
    const bool is_rpc = route_.kind == RouteKind::rpc;
    begin_body(is_rpc ? Body::Kind::whole : Body::Kind::pieces,
               is_rpc ? shared_->options.body_bytes_max : shared_->options.put_bytes_max);
    return;
  }
  phase_ = Phase::pending;
  deadline_->clear();
  announce();
  read();
  if (route_.kind == RouteKind::page) {
    shared_->handler->on_page(*ref_, route_.page);
  } else {
    shared_->handler->on_blob(*ref_, route_.hash, route_.caller);
  }
}

void Session::begin_body(Body::Kind kind, std::uint64_t bytes_max) {
  if (!head_.is_chunked && !head_.content_length) head_.content_length = 0;
  if (head_.content_length.value_or(0) > bytes_max) {
    refuse(too_large(bytes_max));
    return;
  }
  if (head_.is_chunked) parser_->limit_body(bytes_max);
  body_.emplace(Body::Plan{.kind = kind, .length = head_.content_length, .bytes_max = bytes_max},
                shared_->bodies);
  phase_ = Phase::body;
  keep_alive_ = head_.keep_alive && !shared_->is_draining;
  owes_continue_ = head_.expectation == Expectation::continue_100 && !head_.is_http_1_0;
  if (kind == Body::Kind::whole) {
    continue_body();
    return;
  }
  deadline_->clear();  // the node's turn: it calls put_continue, or refuses
  announce();
  shared_->handler->on_put_begun(*ref_, head_.content_length);
}

void Session::put_continue() {
  const bool is_due = phase_ == Phase::body && route_.kind == RouteKind::put;
  if (!is_due || wants_put_piece_) return;
  wants_put_piece_ = true;
  continue_body();
}

void Session::continue_body() {
  if (phase_ != Phase::body) return;
  if (route_.kind == RouteKind::put && !wants_put_piece_) return;
  switch (body_->take_from(input_, *parser_)) {
    case Body::Progress::need_input:
      break;
    case Body::Progress::piece_ready:
      deliver_piece();
      return;
    case Body::Progress::done:
      on_body_done();
      return;
    case Body::Progress::bad:
      refuse(refusal(400, "the chunked body is malformed"));
      return;
    case Body::Progress::too_large:
      refuse(too_large(route_.kind == RouteKind::put ? shared_->options.put_bytes_max
                                                     : shared_->options.body_bytes_max));
      return;
    case Body::Progress::over_budget: {
      Refusal busy = refusal(503, "the node holds too many request bodies at once");
      busy.headers.push_back({.name = "Retry-After", .value = "1"});
      refuse(busy);
      return;
    }
  }
  if (input_.is_full()) {  // chunks that the parser cannot use
    refuse(refusal(400, "the chunked body is malformed"));
    return;
  }
  deadline_->set(shared_->options.idle_timeout);
  if (owes_continue_ && !is_writing_) {
    owes_continue_ = false;
    send({.head = "HTTP/1.1 100 Continue\r\n\r\n", .body = {}, .next = &Session::continue_body});
    return;
  }
  read();
}

void Session::deliver_piece() {
  wants_put_piece_ = false;
  deadline_->clear();
  shared_->handler->on_put_piece(*ref_, body_->take());
}

void Session::on_body_done() {
  if (route_.kind == RouteKind::put && body_->has_bytes()) {
    deliver_piece();
    return;
  }
  phase_ = Phase::pending;
  deadline_->clear();
  read();
  if (route_.kind == RouteKind::put) {
    shared_->handler->on_put_ended(*ref_);
    return;
  }
  announce();
  shared_->handler->on_rpc(*ref_, body_->take(), route_.caller);
}

void Session::read() {
  if (is_reading_ || has_peer_ended_ || phase_ == Phase::closed) return;
  ReadInto into = ReadInto::input;
  std::span<std::byte> space;
  if (phase_ == Phase::body && input_.unread().empty()) {
    space = body_->direct_space();
    into = ReadInto::body;
  }
  if (space.empty()) {
    space = input_.space();
    into = ReadInto::input;
  }
  if (space.empty()) return;  // read on when something is consumed
  is_reading_ = true;
  transport_->read_some(
      space, [self = shared_from_this(), into](std::error_code error, std::size_t bytes) {
        self->on_read(error, bytes, into);
      });
}

void Session::on_read(std::error_code error, std::size_t bytes, ReadInto into) {
  is_reading_ = false;
  if (phase_ == Phase::closed) return;
  shared_->stats.bytes_received += bytes;
  if (error) {
    on_peer_end();
    return;
  }
  if (phase_ == Phase::lingering) {
    read();
    return;
  }
  if (into == ReadInto::body) {
    body_->commit_direct(bytes);
  } else {
    input_.commit(bytes);
  }
  if (phase_ == Phase::head) {
    continue_head();
  } else if (phase_ == Phase::body) {
    continue_body();
  } else {
    read();
  }
}

void Session::on_peer_end() {
  has_peer_ended_ = true;
  // An answer on its way may still arrive: where it cannot, the write says so.
  if (phase_ != Phase::replying) close();
}

void Session::on_timeout() {
  const bool has_begun = phase_ == Phase::body || (phase_ == Phase::head && parser_->has_begun());
  if (has_begun && !is_writing_) {  // a write that stalls leaves no room for an answer
    keep_alive_ = false;
    refuse(refusal(408, "the request took too long to arrive"));
    return;
  }
  close();
}

void Session::drain() {
  keep_alive_ = false;
  if (!is_busy()) close();
}

void Session::close() {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  deadline_->clear();
  transport_->close();
  notify_gone();
  const std::shared_ptr<Session> self = shared_from_this();
  shared_->sessions.erase(self);
  shared_->check_drained();
}

}  // namespace tenzro::http
