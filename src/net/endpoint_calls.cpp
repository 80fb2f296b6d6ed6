// EndpointState: calls, links, dialling, and what is told about peers and packets.
#include <algorithm>
#include <utility>

#include "connection_callbacks.hpp"
#include "endpoint_state.hpp"
#include "own_address.hpp"

namespace tenzro::net {
namespace {

std::size_t size_of(const std::vector<BufferRef>& parts) {
  std::size_t size = 0;
  for (const BufferRef& part : parts) size += part.size();
  return size;
}

}  // namespace

void EndpointState::end_call(PeerCallId call, Error error) {
  calls_.erase(call);
  events_.emplace_back(CallEnded{call, fail(std::move(error))});
  schedule_turn();
}

void EndpointState::call(PeerCallId call, const Target& target, wire::Protocol protocol,
                         std::vector<BufferRef> request) {
  if (is_closed_) return end_call(call, {ErrorCode::io, {}, "this endpoint is closed"});
  if (calls_.size() >= options_.calls_max) {
    return end_call(call, {ErrorCode::busy, {}, "too many calls to peers"});
  }
  if (size_of(request) > seams_.limits(protocol).request_bytes_max) {
    return end_call(call,
                    {ErrorCode::no_space, {}, "the request is larger than its protocol allows"});
  }
  const std::shared_ptr<Link> link = open_link(target, protocol);
  if (!link) return end_call(call, {ErrorCode::busy, {}, "too many connections"});
  calls_[call] = link;
  if (link->connection != nullptr && link->connection->is_connected()) {
    link->connection->call(call, std::move(request));
  } else if (link->is_over()) {
    end_call(call, link->last_error());
  } else {
    link->waiting.push_back({call, std::move(request)});
  }
}

std::shared_ptr<Link> EndpointState::open_link(const Target& target, wire::Protocol protocol) {
  LinkKey key = LinkKey::of(target, protocol);
  if (const auto found = links_.find(key); found != links_.end()) {
    if (!found->second->has_moved(target.addresses)) return found->second;
    const std::shared_ptr<Link> left = found->second;  // fail_link removes it
    fail_link(*left, {ErrorCode::cancelled, {}, "the peer has moved to another address"});
  }
  if (links_.size() >= options_.connections_max || table_.size() >= options_.connections_max) {
    return nullptr;
  }
  auto link = std::make_shared<Link>(context_, key, target);
  links_[std::move(key)] = link;
  // Whoever calls itself, or anybody at an address, gets what it asks for.
  Link::IsOwn is_own;
  if (target.id && *target.id != self_) {
    is_own = [this](const SocketAddress& address) {
      return is_own_address(address, socket_.local());
    };
  }
  link->start(
      socket_.local().family(), options_.handshake_timeout, std::move(is_own),
      [this, raw = link.get()](const SocketAddress& to, Duration timeout) {
        return dial(*raw, to, timeout);
      },
      [this, raw = link.get()](const Error& error) { fail_link(*raw, error); });
  return link;
}

bool EndpointState::dial(Link& link, const SocketAddress& to, Duration timeout) {
  auto connection = Connection::dial(*shared_, *this,
                                     {.to = to,
                                      .expected = link.key().id,
                                      .protocol = link.key().protocol,
                                      .handshake_timeout = timeout});
  if (!connection) return false;
  Connection& added = table_.add(std::move(connection));
  dialled_[&added] = &link;
  link.connection = &added;
  on_dirty(added);
  return true;
}

void EndpointState::fail_link(Link& link, const Error& error) {
  for (auto& waiting : std::exchange(link.waiting, {})) end_call(waiting.call, error);
  Connection* dialling = std::exchange(link.connection, nullptr);
  retire(link);
  if (dialling == nullptr) return;
  dialled_.erase(dialling);
  dialling->close(Code::cancelled, error, ConnectionCallbacks::now());
}

void EndpointState::retire(Link& link) {
  link.stop();
  const auto found = links_.find(link.key());
  if (found == links_.end() || found->second.get() != &link) return;
  retired_.push_back(std::move(found->second));
  links_.erase(found);
  schedule_turn();
}

void EndpointState::cancel(PeerCallId call) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) {
    // It may have ended already, with nobody told yet.
    std::erase_if(events_, [&](const Event& event) {
      const auto* ended = std::get_if<CallEnded>(&event);
      return ended != nullptr && ended->call == call;
    });
    return;
  }
  const std::shared_ptr<Link> link = found->second;
  calls_.erase(found);
  const auto waits = std::find_if(link->waiting.begin(), link->waiting.end(),
                                  [&](const auto& other) { return other.call == call; });
  if (waits != link->waiting.end()) {
    link->waiting.erase(waits);
  } else if (link->connection != nullptr) {
    link->connection->cancel(call);
  }
}

void EndpointState::reply(PeerRequestId request, std::vector<BufferRef> reply) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const OpenRequest open = found->second;
  requests_.erase(found);
  open.connection->reply(open.stream, std::move(reply));
}

void EndpointState::refuse(PeerRequestId request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const OpenRequest open = found->second;
  requests_.erase(found);
  ++totals_.requests_refused;
  open.connection->refuse(open.stream);
}

void EndpointState::close(std::function<void()> done) {
  is_closed_ = true;
  const Error error{ErrorCode::io, {}, "this endpoint is closing"};
  const auto links = links_;  // fail_link removes them
  for (const auto& [key, link] : links) {
    if (link->connection == nullptr || !link->connection->is_connected()) fail_link(*link, error);
  }
  const ngtcp2_tstamp now = ConnectionCallbacks::now();
  for (Connection* connection : table_.all()) connection->close(Code::done, error, now);
  asio::post(context_, [self = shared_from_this(), done = std::move(done)] {
    self->turn();
    if (done) done();
  });
}

Totals EndpointState::totals() const {
  Totals totals = totals_;
  const UdpSocket::Counts& socket = socket_.counts();
  totals.bytes_sent = socket.bytes_sent;
  totals.bytes_received = socket.bytes_received;
  totals.packets_sent = socket.packets_sent;
  totals.packets_received = socket.packets_received;
  totals.gso_fallbacks = socket.gso_fallbacks;
  const Doorkeeper::Counts& door = doorkeeper_->counts();
  totals.packets_dropped = unparsable_ + door.dropped;
  totals.retries = door.retries;
  totals.stateless_resets = door.stateless_resets;
  return totals;
}

}  // namespace tenzro::net
