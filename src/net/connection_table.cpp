#include "connection_table.hpp"

#include <algorithm>
#include <cstring>

namespace tenzro::net {

bool ConnectionTable::IdOrder::operator()(const ngtcp2_cid& a, const ngtcp2_cid& b) const {
  if (a.datalen != b.datalen) return a.datalen < b.datalen;
  return std::memcmp(a.data, b.data, a.datalen) < 0;
}

Connection& ConnectionTable::add(std::unique_ptr<Connection> connection,
                                 const std::optional<SocketAddress::Network>& proven) {
  Connection& added = *connection;
  if (added.side() == Side::server) {
    ++inbound_;
    ++half_open_;
    if (proven) {
      proven_half_open_.emplace(&added, *proven);
      ++half_open_by_network_[*proven];
    }
  }
  all_[&added] = std::move(connection);
  return added;
}

Connection* ConnectionTable::find(const ngtcp2_cid& id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : found->second;
}

void ConnectionTable::add_id(Connection& connection, const ngtcp2_cid& id) {
  // Never over another's: a stranger may choose its first id to be one of somebody else.
  ids_.try_emplace(id, &connection);
}

void ConnectionTable::remove_id(const ngtcp2_cid& id) {
  ids_.erase(id);
}

void ConnectionTable::add_token(Connection& connection, const ResetToken& token) {
  tokens_.try_emplace(token, &connection);
}

void ConnectionTable::remove_token(const ResetToken& token) {
  tokens_.erase(token);
}

Connection* ConnectionTable::find_reset(std::span<const std::uint8_t> datagram) const {
  ResetToken token{};
  if (datagram.size() < token.size()) return nullptr;
  std::copy(datagram.end() - static_cast<std::ptrdiff_t>(token.size()), datagram.end(),
            token.begin());
  const auto found = tokens_.find(token);
  return found == tokens_.end() ? nullptr : found->second;
}

void ConnectionTable::mark_dirty(Connection& connection) {
  if (connection.is_listed_dirty) return;
  connection.is_listed_dirty = true;
  dirty_.push_back(&connection);
}

std::vector<Connection*> ConnectionTable::take_dirty() {
  std::vector<Connection*> taken;
  taken.swap(dirty_);
  for (Connection* connection : taken) connection->is_listed_dirty = false;
  return taken;
}

void ConnectionTable::update_expiry(Connection& connection) {
  const ngtcp2_tstamp expiry = connection.expiry();
  if (expiry == connection.listed_expiry) return;
  by_time_.erase({connection.listed_expiry, &connection});
  connection.listed_expiry = expiry;
  if (expiry != UINT64_MAX) by_time_.insert({expiry, &connection});
}

ngtcp2_tstamp ConnectionTable::next_expiry() const {
  return by_time_.empty() ? UINT64_MAX : by_time_.begin()->first;
}

std::vector<Connection*> ConnectionTable::take_due(ngtcp2_tstamp now) {
  std::vector<Connection*> due;
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    Connection* connection = by_time_.begin()->second;
    by_time_.erase(by_time_.begin());
    connection->listed_expiry = UINT64_MAX;
    due.push_back(connection);
  }
  return due;
}

void ConnectionTable::mark_connected(Connection& connection) {
  if (connection.side() == Side::server) close_half_open(connection);
}

void ConnectionTable::close_half_open(Connection& connection) {
  --half_open_;
  const auto proven = proven_half_open_.extract(&connection);
  if (!proven) return;
  const auto of_one = half_open_by_network_.find(proven.mapped());
  if (--of_one->second == 0) half_open_by_network_.erase(of_one);
}

std::size_t ConnectionTable::half_open_of(const SocketAddress::Network& network) const {
  const auto found = half_open_by_network_.find(network);
  return found == half_open_by_network_.end() ? 0 : found->second;
}

void ConnectionTable::mark_dead(Connection& connection) {
  dead_.push_back(&connection);
}

void ConnectionTable::sweep() {
  if (dead_.empty()) return;
  const std::set<Connection*> dead(dead_.begin(), dead_.end());
  dead_.clear();
  std::erase_if(ids_, [&](const auto& entry) { return dead.contains(entry.second); });
  std::erase_if(tokens_, [&](const auto& entry) { return dead.contains(entry.second); });
  std::erase_if(dirty_, [&](Connection* connection) { return dead.contains(connection); });
  for (Connection* connection : dead) {
    by_time_.erase({connection->listed_expiry, connection});
    if (connection->side() == Side::server) {
      --inbound_;
      if (!connection->is_connected()) close_half_open(*connection);
    }
    all_.erase(connection);
  }
}

std::vector<Connection*> ConnectionTable::all() const {
  std::vector<Connection*> every;
  every.reserve(all_.size());
  for (const auto& [connection, owned] : all_) every.push_back(connection);
  return every;
}

void ConnectionTable::clear() {
  ids_.clear();
  tokens_.clear();
  by_time_.clear();
  dirty_.clear();
  dead_.clear();
  all_.clear();
  proven_half_open_.clear();
  half_open_by_network_.clear();
  inbound_ = 0;
  half_open_ = 0;
}

}  // namespace tenzro::net
