#pragma once
/// \file
/// All connections of an endpoint: by connection id, by time, and those that have packets to write.
///
/// Bounded by Options::connections_max; ids by what ngtcp2 gives out for each. Deleting happens in
/// sweep() alone, so that whoever is being served is still there when it returns.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <ngtcp2/ngtcp2.h>

#include "connection.hpp"
#include "socket_address.hpp"

namespace tenzro::net {

class ConnectionTable {
 public:
  /// `proven`: the network that an inbound connection is known to come from.
  Connection& add(std::unique_ptr<Connection> connection,
                  const std::optional<SocketAddress::Network>& proven = {});
  [[nodiscard]] Connection* find(const ngtcp2_cid& id) const;
  void add_id(Connection& connection, const ngtcp2_cid& id);
  void remove_id(const ngtcp2_cid& id);
  void add_token(Connection& connection, const ResetToken& token);
  void remove_token(const ResetToken& token);
  /// The connection that a datagram with these last bytes ends.
  [[nodiscard]] Connection* find_reset(std::span<const std::uint8_t> datagram) const;

  void mark_dirty(Connection& connection);

  [[nodiscard]] bool has_dirty() const { return !dirty_.empty(); }

  /// The marked ones; marks are gone afterwards.
  [[nodiscard]] std::vector<Connection*> take_dirty();

  void update_expiry(Connection& connection);
  [[nodiscard]] ngtcp2_tstamp next_expiry() const;
  /// Those due at `now`, out of the order of time until their expiry is updated.
  [[nodiscard]] std::vector<Connection*> take_due(ngtcp2_tstamp now);

  /// An inbound connection finished its handshake.
  void mark_connected(Connection& connection);
  void mark_dead(Connection& connection);
  void sweep();

  [[nodiscard]] std::size_t size() const { return all_.size(); }

  [[nodiscard]] std::size_t inbound() const { return inbound_; }

  /// Inbound connections that have not finished their handshake.
  [[nodiscard]] std::size_t half_open() const { return half_open_; }

  /// Of them, those known to come from `network`.
  [[nodiscard]] std::size_t half_open_of(const SocketAddress::Network& network) const;

  [[nodiscard]] std::vector<Connection*> all() const;
  void clear();

 private:
  void close_half_open(Connection& connection);

  struct IdOrder {
    bool operator()(const ngtcp2_cid& a, const ngtcp2_cid& b) const;
  };

  std::map<Connection*, std::unique_ptr<Connection>> all_;
  /// Ordered, not hashed: strangers choose some of the ids.
  std::map<ngtcp2_cid, Connection*, IdOrder> ids_;
  std::map<ResetToken, Connection*> tokens_;
  std::set<std::pair<ngtcp2_tstamp, Connection*>> by_time_;
  std::vector<Connection*> dirty_;
  std::vector<Connection*> dead_;
  std::size_t inbound_ = 0;
  std::size_t half_open_ = 0;
  std::map<Connection*, SocketAddress::Network> proven_half_open_;
  std::map<SocketAddress::Network, std::size_t> half_open_by_network_;
};

}  // namespace tenzro::net
