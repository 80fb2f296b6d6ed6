// Connection: its calls, replies, and what they may hold.
#include <algorithm>
#include <utility>

#include "connection.hpp"
#include "connection_callbacks.hpp"

namespace tenzro::net {

Stream* Connection::find(std::int64_t stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second.get();
}

void Connection::call(PeerCallId call, std::vector<BufferRef> parts) {
  waiting_.push_back({call, std::move(parts)});
  open_waiting();
  owner_.on_dirty(*this);
}

void Connection::open_waiting() {
  if (!is_connected_ || is_dead_ || waiting_.empty()) return;
  std::size_t opened = 0;
  while (opened < waiting_.size() && open_stream(waiting_[opened])) ++opened;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(opened));
  update_keep_alive();
}

bool Connection::open_stream(WaitingCall& waiting) {
  std::int64_t id = 0;
  if (ngtcp2_conn_open_bidi_stream(quic_, &id, nullptr) != 0) return false;
  auto stream = std::make_unique<Stream>(id, context_.limits(protocol_).reply_bytes_max);
  ngtcp2_conn_set_stream_user_data(quic_, id, stream.get());
  stream->call = waiting.call;
  stream->out.assign(std::move(waiting.parts));
  queue_.add(*stream);
  calls_[waiting.call] = stream.get();
  streams_[id] = std::move(stream);
  return true;
}

void Connection::cancel(PeerCallId call) {
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const WaitingCall& other) { return other.call == call; });
  if (waits != waiting_.end()) waiting_.erase(waits);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  Stream& stream = *found->second;
  calls_.erase(found);
  stream.call.reset();
  give_up(stream, Code::cancelled);
  apply_shutdowns();
  update_keep_alive();
  owner_.on_dirty(*this);
}

void Connection::reply(std::int64_t id, std::vector<BufferRef> parts) {
  Stream* stream = find(id);
  if (stream == nullptr || !stream->request || is_dead_) return;
  stream->request.reset();
  stream->out.assign(std::move(parts));
  queue_.add(*stream);
  owner_.on_dirty(*this);
}

void Connection::refuse(std::int64_t id) {
  Stream* stream = find(id);
  if (stream == nullptr || !stream->request || is_dead_) return;
  stream->request.reset();
  give_up(*stream, Code::refused);
  strike();
  apply_shutdowns();
  owner_.on_dirty(*this);
}

void Connection::finish_call(Stream& stream, Result<BufferRef> outcome) {
  const PeerCallId call = *std::exchange(stream.call, std::nullopt);
  calls_.erase(call);
  if (outcome) {
    owner_.on_call_ended(call, Reply{.from = peer_, .bytes = std::move(*outcome)});
  } else {
    owner_.on_call_ended(call, fail(std::move(outcome.error())));
  }
}

void Connection::finish_message(Stream& stream) {
  stream.is_in_done = true;
  BufferRef bytes = stream.in.take();
  release(stream);
  if (stream.call) {
    finish_call(stream, std::move(bytes));
    // The peer has answered before it read all of the request: it will not need the rest.
    if (stream.out.is_pending()) give_up(stream, Code::cancelled);
  } else if (side_ == Side::server) {
    stream.request = owner_.on_request(*this, stream.id, std::move(bytes));
  }
}

/// Takes nothing more from the stream and sends nothing more on it.
void Connection::give_up(Stream& stream, Code code) {
  if (stream.request) owner_.on_request_gone(*std::exchange(stream.request, std::nullopt));
  stream.is_in_done = true;
  (void)stream.in.take();
  release(stream);
  queue_.remove(stream);
  stream.out.abandon();
  shutdowns_.emplace_back(stream.id, code);
}

void Connection::apply_shutdowns() {
  for (const auto& [id, code] : std::exchange(shutdowns_, {})) {
    // A stream that is gone already has nothing to reset.
    (void)compat::shutdown_stream(quic_, id, static_cast<std::uint64_t>(code));
  }
  update_keep_alive();
  if (strikes_ < kStrikesMax || is_dead_) return;
  close(Code::misbehaved, {ErrorCode::forbidden, remote_.text(), "too many bad requests"},
        ConnectionCallbacks::now());
}

void Connection::strike() {
  ++strikes_;
}

void Connection::update_keep_alive() {
  const bool is_wanted = !calls_.empty() || !waiting_.empty();
  if (is_wanted == is_kept_alive_ || is_dead_) return;
  is_kept_alive_ = is_wanted;
  const auto interval = std::chrono::nanoseconds(context_.options.keep_alive).count();
  ngtcp2_conn_set_keep_alive_timeout(
      quic_, is_wanted ? static_cast<ngtcp2_duration>(interval) : compat::kKeepAliveOff);
}

/// The peer may open another one. Told in batches, because each telling is a packet that it has to
/// acknowledge; what is held back is less than a share of what it may have open.
void Connection::return_stream() {
  constexpr std::size_t kShare = 8;
  if (++unreturned_streams_ < std::max<std::size_t>(1, context_.options.streams_max / kShare))
    return;
  ngtcp2_conn_extend_max_streams_bidi(quic_, std::exchange(unreturned_streams_, 0));
}

void Connection::credit(std::size_t bytes) {
  withheld_ += bytes;
  const std::size_t held = account_ ? account_->held : 0;
  if (held + kConnectionWindow > context_.options.peer_bytes_max) return;
  // In batches: each telling is a packet that the peer has to acknowledge.
  if (withheld_ >= kConnectionWindow / 8)
    ngtcp2_conn_extend_max_offset(quic_, std::exchange(withheld_, 0));
}

void Connection::release(Stream& stream) {
  const std::size_t bytes = std::exchange(stream.held, 0);
  if (!account_ || bytes == 0) return;
  account_->held -= bytes;
  for (Connection* other : account_->connections) {
    if (other->is_dead_ || other->withheld_ == 0) continue;
    other->credit(std::exchange(other->withheld_, 0));
    owner_.on_dirty(*other);
  }
}

}  // namespace tenzro::net
