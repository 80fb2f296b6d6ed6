// EndpointState: the turn, datagrams in, and what connections report.
#include "endpoint_state.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <asio/post.hpp>

#include "tenzro/crypto/hmac.hpp"

#include "connection_callbacks.hpp"
#include "datagram.hpp"

namespace tenzro::net {
namespace {

/// Rounds of telling and writing in one turn; what is left waits for the next.
constexpr int kTurnRounds = 4;
/// Timers look no sooner than this. Why: after every packet of a near peer the transport wants to
/// be asked again within microseconds, about an acknowledgement that the reply will carry anyway; a
/// millisecond is the granularity that its loss recovery assumes.
constexpr ngtcp2_duration kTimerGranularity = NGTCP2_MILLISECONDS;
/// Below this a peer could not send the largest message at all.
constexpr std::size_t kPeerBytesMin = wire::kExecMessageBytesMax + Connection::kConnectionWindow;

Hash32 reset_secret_of(const crypto::KeyPair& identity) {
  static constexpr std::string_view kPurpose = "tenzro stateless reset";
  const crypto::Seed seed = identity.seed();
  std::array<std::uint8_t, kPurpose.size()> message{};
  std::copy(kPurpose.begin(), kPurpose.end(), message.begin());
  return crypto::hmac_sha256(seed, message);
}

}  // namespace

EndpointState::EndpointState(asio::io_context& context, const Options& options, Handler& handler,
                             Seams seams)
    : context_(context),
      options_(options),
      handler_(&handler),
      seams_(std::move(seams)),
      socket_(context,
              {.gso = options.gso, .gro = options.gro, .send_message = seams_.send_message}),
      timer_(context) {
  options_.peer_bytes_max = std::max(options_.peer_bytes_max, kPeerBytesMin);
}

Status EndpointState::open(const crypto::KeyPair& identity) {
  const std::optional<SocketAddress> listen = SocketAddress::parse(options_.listen);
  if (!listen) return fail(ErrorCode::io, options_.listen, "not an address to listen on");
  auto tls = TlsIdentity::make(identity);
  if (!tls) return fail(std::move(tls.error()));
  identity_ = std::move(*tls);
  self_ = identity.public_key();
  if (Status opened = socket_.open(*listen); !opened) return opened;
  shared_ = std::make_unique<ConnectionContext>(ConnectionContext{
      .socket = socket_, .identity = *identity_, .options = options_, .limits = seams_.limits});
  shared_->reset_secret = reset_secret_of(identity);
  doorkeeper_ = std::make_unique<Doorkeeper>(*shared_, seams_.retry_from);
  wait_for_datagrams();
  return {};
}

void EndpointState::abandon() {
  handler_ = nullptr;
  is_closed_ = true;
  for (const auto& [key, link] : links_) link->stop();
  timer_.cancel();
  socket_.close();
  // Whoever is up the stack may still be in a connection: it goes with the state itself.
  events_.clear();
}

void EndpointState::wait_for_datagrams() {
  socket_.wait_readable([self = shared_from_this()](std::error_code error) {
    if (error || !self->socket_.is_open()) return;
    const ngtcp2_tstamp now = ConnectionCallbacks::now();
    self->is_turn_scheduled_ = true;  // by this very function
    self->socket_.receive([&](const Datagram& datagram) { self->on_datagram(datagram, now); });
    self->is_turn_scheduled_ = false;
    self->turn();
    if (self->socket_.is_open()) self->wait_for_datagrams();
  });
}

void EndpointState::on_datagram(const Datagram& datagram, ngtcp2_tstamp now) {
  if (is_closed_) return;
  const std::optional<DatagramHead> head = read_head(datagram.bytes);
  if (!head) {
    ++unparsable_;
    return;
  }
  if (head->kind == DatagramKind::packet) {
    Connection* connection = table_.find(connection_id_of(head->destination));
    if (connection == nullptr && !head->is_long) connection = table_.find_reset(datagram.bytes);
    if (connection != nullptr) {
      connection->read(datagram, now);
      return;
    }
  }
  // A quarter is kept for our own dials: strangers must not cut this node off from its peers.
  const std::size_t inbound_max = options_.connections_max - options_.connections_max / 4;
  const Doorkeeper::Load load{
      .half_open = table_.half_open(),
      .half_open_of_sender = table_.half_open_of(datagram.from.network()),
      .is_full = table_.size() >= options_.connections_max || table_.inbound() >= inbound_max};
  const auto admitted = doorkeeper_->admit(datagram, *head, load, now);
  if (!admitted) return;
  auto connection = Connection::accept(
      *shared_, *this,
      {.from = datagram.from, .header = &admitted->header, .before_retry = admitted->before_retry});
  if (!connection) return;
  const auto proven =
      admitted->before_retry ? std::optional(datagram.from.network()) : std::nullopt;
  table_.add(std::move(connection), proven).read(datagram, now);
}

// NOLINTBEGIN(misc-no-recursion): a posted turn runs later, never inside another.
void EndpointState::schedule_turn() {
  if (is_turn_scheduled_ || is_in_turn_) return;
  is_turn_scheduled_ = true;
  asio::post(context_, [self = shared_from_this()] {
    self->is_turn_scheduled_ = false;
    self->turn();
  });
}

void EndpointState::turn() {
  if (is_in_turn_) return;
  is_in_turn_ = true;
  for (int round = 0; round < kTurnRounds; ++round) {
    deliver();
    write_dirty();
    if (events_.empty()) break;
  }
  is_in_turn_ = false;
  const bool can_write = socket_.is_open() && !socket_.is_blocked();
  if (!events_.empty() || (table_.has_dirty() && can_write)) schedule_turn();
  table_.sweep();
  retired_.clear();
  arm_timer();
}

// NOLINTEND(misc-no-recursion)

void EndpointState::deliver() {
  for (std::size_t left = events_.size(); left != 0 && !events_.empty(); --left) {
    Event event = std::move(events_.front());
    events_.pop_front();
    if (handler_ == nullptr) return;
    if (auto* ended = std::get_if<CallEnded>(&event)) {
      handler_->on_reply(ended->call, std::move(ended->reply));
    } else if (auto* request = std::get_if<Request>(&event)) {
      handler_->on_request(std::move(*request));
    } else {
      handler_->on_request_cancelled(std::get<RequestGone>(event).request);
    }
  }
}

void EndpointState::write_dirty() {
  if (!socket_.is_open()) return;
  const ngtcp2_tstamp now = ConnectionCallbacks::now();
  for (Connection* connection : table_.take_dirty()) {
    if (connection->is_dead()) continue;
    if (!socket_.is_blocked()) connection->write(now);
    if (socket_.is_blocked()) table_.mark_dirty(*connection);
    if (!connection->is_dead()) table_.update_expiry(*connection);
  }
  if (socket_.is_blocked()) wait_for_room();
}

void EndpointState::wait_for_room() {
  if (is_waiting_for_room_) return;
  is_waiting_for_room_ = true;
  socket_.wait_writable([self = shared_from_this()](std::error_code error) {
    self->is_waiting_for_room_ = false;
    if (!error) self->turn();
  });
}

void EndpointState::arm_timer() {
  const ngtcp2_tstamp next = table_.next_expiry();
  // A timer that fires too early looks again; re-arming for every packet would cost more.
  if (next >= armed_for_ || !socket_.is_open()) return;
  const ngtcp2_tstamp soonest = ConnectionCallbacks::now() + kTimerGranularity;
  if (soonest >= armed_for_) return;
  armed_for_ = std::max(next, soonest);
  timer_.expires_at(std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::nanoseconds(armed_for_))));
  timer_.async_wait([self = shared_from_this()](std::error_code error) {
    if (!error) self->on_timer();
  });
}

void EndpointState::on_timer() {
  armed_for_ = UINT64_MAX;
  if (!socket_.is_open()) return;
  const ngtcp2_tstamp now = ConnectionCallbacks::now();
  for (Connection* connection : table_.take_due(now)) connection->on_time(now);
  turn();
}

void EndpointState::on_connection_id(Connection& connection, const ngtcp2_cid& id) {
  table_.add_id(connection, id);
}

void EndpointState::on_connection_id_gone(const ngtcp2_cid& id) {
  table_.remove_id(id);
}

void EndpointState::on_reset_token(Connection& connection, const ResetToken& token) {
  table_.add_token(connection, token);
}

void EndpointState::on_reset_token_gone(const ResetToken& token) {
  table_.remove_token(token);
}

bool EndpointState::on_connected(Connection& connection) {
  std::shared_ptr<PeerAccount>& account = accounts_[connection.peer()];
  if (!account) account = std::make_shared<PeerAccount>();
  const auto inbound =
      std::count_if(account->connections.begin(), account->connections.end(),
                    [](const Connection* other) { return other->side() == Side::server; });
  if (connection.side() == Side::server &&
      static_cast<std::size_t>(inbound) >= kInboundPerPeerMax) {
    return false;
  }
  account->connections.push_back(&connection);
  connection.join(account);
  ++totals_.handshakes;
  table_.mark_connected(connection);
  const auto dialled = dialled_.find(&connection);
  if (dialled == dialled_.end()) return true;
  Link& link = *dialled->second;
  link.on_connected(connection);
  for (auto& waiting : std::exchange(link.waiting, {})) {
    connection.call(waiting.call, std::move(waiting.parts));
  }
  return true;
}

void EndpointState::on_call_ended(PeerCallId call, Result<Reply> reply) {
  calls_.erase(call);
  events_.emplace_back(CallEnded{call, std::move(reply)});
  schedule_turn();
}

PeerRequestId EndpointState::on_request(Connection& connection, std::int64_t stream,
                                        BufferRef bytes) {
  const PeerRequestId id{next_request_++};
  requests_[id] = {&connection, stream};
  events_.emplace_back(Request{.id = id,
                               .from = connection.peer(),
                               .address = connection.remote().text(),
                               .protocol = connection.protocol(),
                               .bytes = std::move(bytes)});
  return id;
}

void EndpointState::on_request_gone(PeerRequestId request) {
  requests_.erase(request);
  events_.emplace_back(RequestGone{request});
  schedule_turn();
}

void EndpointState::on_dirty(Connection& connection) {
  table_.mark_dirty(connection);
  schedule_turn();
}

void EndpointState::on_lost(Connection& connection, const Error& error) {
  table_.mark_dead(connection);
  if (!connection.is_connected()) ++totals_.handshakes_failed;
  if (const auto& account = connection.account()) {
    std::erase(account->connections, &connection);
    if (account->connections.empty()) accounts_.erase(connection.peer());
  }
  schedule_turn();
  const auto dialled = dialled_.find(&connection);
  if (dialled == dialled_.end()) return;
  Link& link = *dialled->second;
  dialled_.erase(dialled);
  if (connection.is_connected()) {
    link.connection = nullptr;
    retire(link);
  } else if (!is_closed_) {
    link.try_next(error);
  }
}

}  // namespace tenzro::net
