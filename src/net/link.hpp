#pragma once
/// \file
/// The way to one peer for one protocol: addresses tried in turn, calls that wait, and then the
/// connection.
///
/// A link exists while it is being dialled or has a connection. Its whole dial has
/// Options::handshake_timeout, shared out over the addresses. Names are resolved when their turn
/// comes. It ends as `forbidden` only where another key answered at every address; where any failed
/// in another way the peer may still be what it says. Bounded: kAddressesMax addresses,
/// kResolvedMax of one name.
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/udp.hpp>
#include <asio/steady_timer.hpp>

#include "tenzro/net/endpoint.hpp"

#include "connection.hpp"
#include "socket_address.hpp"

namespace tenzro::net {

/// Links are shared by the calls with the same key.
struct LinkKey {
  std::optional<EndpointId> id;
  /// Only where no id is given: the addresses, joined.
  std::string addresses;
  wire::Protocol protocol = wire::Protocol::moe;
  friend auto operator<=>(const LinkKey&, const LinkKey&) = default;

  [[nodiscard]] static LinkKey of(const Target& target, wire::Protocol protocol);
};

class Link {
 public:
  static constexpr std::size_t kAddressesMax = 8;
  static constexpr std::size_t kResolvedMax = 4;

  /// Asks for the next attempt. False where it cannot even be begun.
  using Attempt = std::function<bool(const SocketAddress& to, Duration timeout)>;
  using GaveUp = std::function<void(const Error&)>;
  /// Whether this very endpoint listens there; such addresses are skipped.
  using IsOwn = std::function<bool(const SocketAddress&)>;

  Link(asio::io_context& context, LinkKey key, const Target& target);

  /// Whether the peer is now said to be at other addresses than those it was dialled at. Why: a
  /// process that came back elsewhere leaves a connection behind that nobody answers.
  [[nodiscard]] bool has_moved(const std::vector<std::string>& addresses) const {
    return !addresses.empty() && !dialled_at_.empty() && addresses != dialled_at_;
  }

  /// Begins; `attempt` and `gave_up` run from here, from try_next(), or from the loop.
  void start(int family, Duration timeout, IsOwn is_own, Attempt attempt, GaveUp gave_up);
  /// The attempt failed.
  void try_next(const Error& error);
  void on_connected(Connection& connected);
  /// Ends what is under way; neither function is called any more.
  void stop();

  [[nodiscard]] const LinkKey& key() const { return key_; }

  [[nodiscard]] bool is_over() const { return !*is_alive_; }

  [[nodiscard]] const Error& last_error() const { return last_error_; }

  /// Whom the current attempt dials, or the connection in use.
  Connection* connection = nullptr;
  std::deque<WaitingCall> waiting;

 private:
  std::vector<std::string> dialled_at_;
  void step();
  void resolve(const HostPort& where);
  void add_candidate(const SocketAddress& address);
  /// Why one of the addresses did not lead to the peer.
  void note_failure(const Error& error);

  LinkKey key_;
  std::deque<std::string> addresses_;
  std::deque<SocketAddress> candidates_;
  int family_ = 0;
  Duration attempt_timeout_{};
  IsOwn is_own_;
  Attempt attempt_;
  GaveUp gave_up_;
  Error last_error_;
  bool was_only_forbidden_ = true;
  bool is_resolving_ = false;
  /// Handlers that come late find it false.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
  asio::ip::udp::resolver resolver_;
  asio::steady_timer deadline_;
};

}  // namespace tenzro::net
