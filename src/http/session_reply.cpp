#include <algorithm>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"

#include "byte_range.hpp"
#include "reply_head.hpp"
#include "session.hpp"

namespace tenzro::http {
namespace {

constexpr std::size_t kBlobPieceBytes = 1UL << 20U;
/// A body up to this size is copied behind its head, so that TLS makes one record of both.
constexpr std::size_t kFlatBytesMax = 8UL << 10U;

}  // namespace

void Session::announce() {
  ref_ = RequestRef{++shared_->last_request};
  shared_->requests.emplace(*ref_, weak_from_this());
}

/// The node has given its answer: nothing more will be said about this request.
void Session::end_request() {
  if (!ref_) return;
  shared_->requests.erase(*ref_);
  ref_.reset();
}

void Session::notify_gone() {
  if (!ref_) return;
  const RequestRef gone = *ref_;
  end_request();
  if (shared_->handler != nullptr) shared_->handler->on_request_gone(gone);
}

void Session::refuse(const Refusal& refusal) {
  ++shared_->stats.refusals[refusal.status];
  if (phase_ == Phase::body) keep_alive_ = false;  // the rest of the body is still to come
  notify_gone();
  begin_reply(make_reply(refusal));
}

void Session::reply(const Reply& reply) {
  const bool is_upload = phase_ == Phase::body && route_.kind == RouteKind::put;
  if (phase_ != Phase::pending && !is_upload) return;
  if (is_upload) keep_alive_ = false;
  end_request();
  begin_reply(reply);
}

void Session::begin_reply(const Reply& reply) {
  phase_ = Phase::replying;
  if (shared_->is_draining) keep_alive_ = false;
  const bool has_body = head_.method != Method::head && reply.status != 204;
  const KeepAlive keep_alive = keep_alive_ ? KeepAlive::yes : KeepAlive::no;
  send({.head = reply_head(reply, reply.body.size(), keep_alive),
        .body = has_body ? reply.body : BufferRef{},
        .next = &Session::finish_reply,
        .held = reply.held});
}

void Session::finish_reply() {
  if (keep_alive_ && !shared_->is_draining && !has_peer_ended_) {
    begin_request(shared_->options.keep_alive_timeout);
  } else {
    linger();
  }
}

void Session::linger() {
  phase_ = Phase::lingering;
  if (has_peer_ended_) {
    close();
    return;
  }
  input_.consume(input_.unread().size());
  transport_->shutdown_send();
  deadline_->set(shared_->options.linger_timeout);
  read();
  shared_->check_drained();
}

void Session::serve_blob(std::uint64_t size) {
  if (phase_ != Phase::pending || route_.kind != RouteKind::blob) return;
  const std::string etag = "\"" + to_hex(route_.hash) + "\"";
  const bool has_range = !route_.is_head && (head_.if_range.empty() || head_.if_range == etag);
  const RangeChoice choice = choose_range(has_range ? head_.range : "", size);
  Reply reply{.status = 200,
              .content_type = "application/octet-stream",
              .body = {},
              .headers = {{"Accept-Ranges", "bytes"}, {"ETag", etag}}};
  if (choice.kind == RangeChoice::Kind::unsatisfiable) {
    reply.status = 416;
    reply.headers.push_back({"Content-Range", "bytes */" + std::to_string(size)});
    this->reply(reply);
    return;
  }
  blob_offset_ = choice.range.first;
  blob_end_ = blob_offset_ + choice.range.count;
  if (choice.kind == RangeChoice::Kind::part) {
    reply.status = 206;
    reply.headers.push_back({"Content-Range", "bytes " + std::to_string(blob_offset_) + "-" +
                                                  std::to_string(blob_end_ - 1) + "/" +
                                                  std::to_string(size)});
  }
  phase_ = Phase::replying;
  const KeepAlive keep_alive = keep_alive_ ? KeepAlive::yes : KeepAlive::no;
  blob_head_ = reply_head(reply, choice.range.count, keep_alive);
  if (route_.is_head || choice.range.count == 0) {
    end_request();
    send({.head = std::move(blob_head_), .body = {}, .next = &Session::finish_reply});
    return;
  }
  want_piece();
}

void Session::want_piece() {
  const std::uint64_t left = blob_end_ - blob_offset_;
  blob_wanted_ = static_cast<std::size_t>(std::min<std::uint64_t>(left, kBlobPieceBytes));
  shared_->handler->on_blob_piece_wanted(*ref_, route_.hash, blob_offset_, blob_wanted_);
}

void Session::send_piece(const BufferRef& piece) {
  if (blob_wanted_ == 0) return;
  TENZRO_ASSERT(piece.size() == blob_wanted_);
  blob_offset_ += blob_wanted_;
  blob_wanted_ = 0;
  if (blob_offset_ == blob_end_) end_request();
  send({.head = std::exchange(blob_head_, {}), .body = piece, .next = &Session::on_piece_sent});
}

void Session::on_piece_sent() {
  if (blob_offset_ == blob_end_) {
    finish_reply();
  } else {
    want_piece();
  }
}

void Session::abort_blob() {
  if (route_.kind != RouteKind::blob) return;
  const bool is_unsent = phase_ == Phase::pending || blob_offset_ == 0;
  blob_wanted_ = 0;
  end_request();
  if (is_unsent && !is_writing_) {
    refuse({.status = 500, .message = "the blob cannot be read", .headers = {}});
  } else {
    close();
  }
}

void Session::send(Outgoing outgoing) {
  if (is_writing_) {
    queued_ = std::move(outgoing);
    return;
  }
  outgoing_ = std::move(outgoing);
  sent_ = 0;
  if (outgoing_.body.size() <= kFlatBytesMax) {
    outgoing_.head.append(outgoing_.body.text());
    outgoing_.body = {};
  }
  write();
}

void Session::write() {
  is_writing_ = true;
  deadline_->set(shared_->options.idle_timeout);
  const std::size_t head_size = outgoing_.head.size();
  const std::size_t head_sent = std::min(sent_, head_size);
  const auto body = outgoing_.body.bytes().subspan(sent_ - head_sent);
  const WriteBuffers buffers = {
      asio::buffer(outgoing_.head.data() + head_sent, head_size - head_sent),
      asio::buffer(body.data(), body.size())};
  transport_->write_some(buffers,
                         [self = shared_from_this()](std::error_code error, std::size_t bytes) {
                           self->on_written(error, bytes);
                         });
}

void Session::on_written(std::error_code error, std::size_t bytes) {
  is_writing_ = false;
  if (phase_ == Phase::closed) return;
  if (error) {
    close();
    return;
  }
  shared_->stats.bytes_sent += bytes;
  sent_ += bytes;
  if (sent_ < outgoing_.head.size() + outgoing_.body.size()) {
    write();
    return;
  }
  deadline_->clear();
  const Next next = outgoing_.next;
  outgoing_ = {};
  if (queued_) {
    send(*std::exchange(queued_, std::nullopt));
    return;
  }
  (this->*next)();
}

}  // namespace tenzro::http
