#pragma once
/// \file
/// The endpoint behind its handle: what outlives it while a handler of the loop still refers to it.
///
/// One turn: datagrams are read, what happened is told to the handler, then every connection with
/// packets writes them. So an answer given at once leaves with the acknowledgement of its request,
/// and calls made in one turn of the loop leave together. The handler is called from a turn alone,
/// never from within a call of the Endpoint.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <asio/steady_timer.hpp>

#include "tenzro/net/endpoint.hpp"

#include "connection_table.hpp"
#include "doorkeeper.hpp"
#include "link.hpp"
#include "udp_socket.hpp"

namespace tenzro::net {

/// What tests put in place of the world.
struct Seams {
  UdpSocket::SendMessage send_message;
  LimitsOf limits = wire::limits_of;
  std::size_t retry_from = Doorkeeper::kRetryFrom;
};

class EndpointState final : public ConnectionOwner,
                            public std::enable_shared_from_this<EndpointState> {
 public:
  /// Inbound connections of one peer, over all protocols. Why so many: foreign endpoints open one
  /// a call of tenzro/moe, and a layer's calls are under way together; their bytes count together.
  static constexpr std::size_t kInboundPerPeerMax = 256;

  EndpointState(asio::io_context& context, const Options& options, Handler& handler, Seams seams);

  [[nodiscard]] Status open(const crypto::KeyPair& identity);
  /// Ends everything without telling anyone; the handler is not called again.
  void abandon();

  void call(PeerCallId call, const Target& target, wire::Protocol protocol,
            std::vector<BufferRef> request);
  void cancel(PeerCallId call);
  void reply(PeerRequestId request, std::vector<BufferRef> reply);
  void refuse(PeerRequestId request);
  void close(std::function<void()> done);

  [[nodiscard]] std::string address() const { return socket_.local().text(); }

  [[nodiscard]] std::size_t connections() const { return table_.size(); }

  [[nodiscard]] Totals totals() const;

  // ConnectionOwner
  void on_connection_id(Connection& connection, const ngtcp2_cid& id) override;
  void on_connection_id_gone(const ngtcp2_cid& id) override;
  void on_reset_token(Connection& connection, const ResetToken& token) override;
  void on_reset_token_gone(const ResetToken& token) override;
  [[nodiscard]] bool on_connected(Connection& connection) override;
  void on_call_ended(PeerCallId call, Result<Reply> reply) override;
  PeerRequestId on_request(Connection& connection, std::int64_t stream, BufferRef bytes) override;
  void on_request_gone(PeerRequestId request) override;

  void on_black_hole() override { ++totals_.mtu_black_holes; }

  void on_dirty(Connection& connection) override;
  void on_lost(Connection& connection, const Error& error) override;

 private:
  struct CallEnded {
    PeerCallId call{};
    Result<Reply> reply;
  };

  struct RequestGone {
    PeerRequestId request{};
  };

  using Event = std::variant<CallEnded, Request, RequestGone>;

  struct OpenRequest {
    Connection* connection = nullptr;
    std::int64_t stream = 0;
  };

  void wait_for_datagrams();
  void wait_for_room();
  void on_datagram(const Datagram& datagram, ngtcp2_tstamp now);
  void turn();
  void schedule_turn();
  void deliver();
  void write_dirty();
  void arm_timer();
  void on_timer();

  void end_call(PeerCallId call, Error error);
  [[nodiscard]] std::shared_ptr<Link> open_link(const Target& target, wire::Protocol protocol);
  [[nodiscard]] bool dial(Link& link, const SocketAddress& to, Duration timeout);
  /// Ends the calls that wait, the dial, and the link.
  void fail_link(Link& link, const Error& error);
  /// Forgets the link: the next call makes another.
  void retire(Link& link);

  asio::io_context& context_;
  Options options_;
  Handler* handler_;
  Seams seams_;
  UdpSocket socket_;
  std::unique_ptr<TlsIdentity> identity_;
  EndpointId self_{};
  std::unique_ptr<ConnectionContext> shared_;
  std::unique_ptr<Doorkeeper> doorkeeper_;
  ConnectionTable table_;
  std::map<EndpointId, std::shared_ptr<PeerAccount>> accounts_;
  std::map<LinkKey, std::shared_ptr<Link>> links_;
  std::map<Connection*, Link*> dialled_;
  std::map<PeerCallId, std::shared_ptr<Link>> calls_;
  std::map<PeerRequestId, OpenRequest> requests_;
  /// Bounded by the calls and streams that are open.
  std::deque<Event> events_;
  /// Ended during this turn; somebody up the stack may still be in one of them.
  std::vector<std::shared_ptr<Link>> retired_;
  asio::steady_timer timer_;
  ngtcp2_tstamp armed_for_ = UINT64_MAX;
  std::uint64_t next_request_ = 1;
  Totals totals_;
  std::uint64_t unparsable_ = 0;
  bool is_turn_scheduled_ = false;
  bool is_in_turn_ = false;
  bool is_waiting_for_room_ = false;
  bool is_closed_ = false;
};

/// Endpoint::listen, with seams.
[[nodiscard]] Result<std::unique_ptr<Endpoint>> listen_with(exec::Loop& loop,
                                                            const crypto::KeyPair& identity,
                                                            const Options& options,
                                                            Handler& handler, Seams seams);

}  // namespace tenzro::net
