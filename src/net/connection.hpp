#pragma once
/// \file
/// One QUIC connection: streams that carry calls, over packets.
///
/// Rules
///  - What happens is recorded with the owner while a packet is read or written; the owner acts on
///    it afterwards. The library must not be entered again from its own callbacks.
///  - A side that dialled opens streams, a side that accepted serves them; never the other way.
///  - Flow control. A stream's window is kStreamWindow. The connection's is small until the peer
///    has proved its key, then kConnectionWindow. Bytes are credited as they arrive, as long as the
///    peer's messages in the making stay below peer_bytes_max; else when one is handed over.
///  - kStrikesMax refused requests end the connection.
/// A dead connection stays until its owner deletes it. Thread: the loop's.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenzro/net/endpoint.hpp"

#include "mtu_guard.hpp"
#include "ngtcp2_compat.hpp"
#include "pacer.hpp"
#include "packet_batch.hpp"
#include "send_queue.hpp"
#include "stream.hpp"
#include "tls.hpp"
#include "udp_socket.hpp"

namespace tenzro::net {

/// Application error codes, of streams and of connections.
enum class Code : std::uint64_t { done, cancelled, refused, too_large, misbehaved, over_limit };

enum class Side : std::uint8_t { client, server };

using ResetToken = std::array<std::uint8_t, NGTCP2_STATELESS_RESET_TOKENLEN>;

class Connection;

/// One peer, over all its connections.
struct PeerAccount {
  std::size_t held = 0;  ///< bytes of messages in the making
  std::vector<Connection*> connections;
};

/// Hears what happens; only records. `Connection&` is valid until the owner deletes it.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void on_connection_id(Connection& connection, const ngtcp2_cid& id) = 0;
  virtual void on_connection_id_gone(const ngtcp2_cid& id) = 0;
  /// A datagram that ends with this token is the peer's word that it forgot the connection.
  virtual void on_reset_token(Connection& connection, const ResetToken& token) = 0;
  virtual void on_reset_token_gone(const ResetToken& token) = 0;
  /// The handshake is complete: peer and protocol are known. False ends the connection.
  [[nodiscard]] virtual bool on_connected(Connection& connection) = 0;
  virtual void on_call_ended(PeerCallId call, Result<Reply> reply) = 0;
  virtual PeerRequestId on_request(Connection& connection, std::int64_t stream,
                                   BufferRef bytes) = 0;
  virtual void on_request_gone(PeerRequestId request) = 0;
  virtual void on_black_hole() = 0;
  /// It has packets to write.
  virtual void on_dirty(Connection& connection) = 0;
  /// It is dead; its calls and requests have ended before.
  virtual void on_lost(Connection& connection, const Error& error) = 0;
};

using LimitsOf = wire::ProtocolLimits (*)(wire::Protocol);

/// What all connections of an endpoint share.
struct ConnectionContext {
  UdpSocket& socket;
  TlsIdentity& identity;
  const Options& options;
  LimitsOf limits = wire::limits_of;
  /// Makes the tokens with which this endpoint, restarted, can end connections it forgot.
  Hash32 reset_secret{};
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(PacketBatch::kBufferBytes);
};

struct DialOptions {
  SocketAddress to;
  std::optional<EndpointId> expected;
  wire::Protocol protocol = wire::Protocol::moe;
  Duration handshake_timeout{};
};

struct AcceptOptions {
  SocketAddress from;
  const ngtcp2_pkt_hd* header = nullptr;
  /// Set where the peer came back with a Retry token: the id it first sent to.
  std::optional<ngtcp2_cid> before_retry;
};

class Connection {
 public:
  static constexpr std::size_t kStreamWindow = 4 << 20;
  static constexpr std::size_t kFirstWindow = 64 << 10;
  static constexpr std::size_t kConnectionWindow = 8 << 20;
  static constexpr int kStrikesMax = 8;

  /// Null where a library refuses.
  [[nodiscard]] static std::unique_ptr<Connection> dial(ConnectionContext& context,
                                                        ConnectionOwner& owner,
                                                        const DialOptions& options);
  [[nodiscard]] static std::unique_ptr<Connection> accept(ConnectionContext& context,
                                                          ConnectionOwner& owner,
                                                          const AcceptOptions& options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read(const Datagram& datagram, ngtcp2_tstamp now);
  void write(ngtcp2_tstamp now);
  void on_time(ngtcp2_tstamp now);
  [[nodiscard]] ngtcp2_tstamp expiry() const;

  /// Requires is_connected(). Waits for a free stream where the peer allows no more.
  void call(PeerCallId call, std::vector<BufferRef> parts);
  /// Nobody waits for the call any more.
  void cancel(PeerCallId call);
  void reply(std::int64_t id, std::vector<BufferRef> parts);
  void refuse(std::int64_t id);
  /// Says why, and is dead. `error`: what its calls end with.
  void close(Code code, const Error& error, ngtcp2_tstamp now);

  [[nodiscard]] Side side() const { return side_; }

  [[nodiscard]] bool is_dead() const { return is_dead_; }

  [[nodiscard]] bool is_connected() const { return is_connected_; }

  /// Known once connected.
  [[nodiscard]] const EndpointId& peer() const { return peer_; }

  [[nodiscard]] wire::Protocol protocol() const { return protocol_; }

  [[nodiscard]] const SocketAddress& remote() const { return remote_; }

  [[nodiscard]] Duration rtt() const;

  void join(std::shared_ptr<PeerAccount> account) { account_ = std::move(account); }

  [[nodiscard]] const std::shared_ptr<PeerAccount>& account() const { return account_; }

  /// For the owner's bookkeeping.
  bool is_listed_dirty = false;
  ngtcp2_tstamp listed_expiry = UINT64_MAX;

 private:
  friend struct ConnectionCallbacks;

  struct WaitingCall {
    PeerCallId call{};
    std::vector<BufferRef> parts;
  };

  Connection(ConnectionContext& context, ConnectionOwner& owner, Side side,
             const SocketAddress& remote);
  [[nodiscard]] bool start_client(const DialOptions& options);
  [[nodiscard]] bool start_server(const AcceptOptions& options);
  [[nodiscard]] ngtcp2_path path() const;
  [[nodiscard]] Stream* find(std::int64_t stream) const;

  /// What a lost connection means for calls of which the peer has acknowledged nothing. Where it
  /// has ended the connection, or forgotten it in a restart, they were never served.
  enum class Unheard : std::uint8_t { may_be_served, are_unserved };

  void lose(const Error& error, Unheard unheard = Unheard::may_be_served);
  /// The time for the library, which since 1.0 wants none before one that it has had: a datagram is
  /// received before the connection that it begins.
  ngtcp2_tstamp advance(ngtcp2_tstamp now);
  void close_after(int library_error, ngtcp2_tstamp now);
  void send_close(const compat::CloseReason& reason, ngtcp2_tstamp now);
  void finish_call(Stream& stream, Result<BufferRef> outcome);
  void finish_message(Stream& stream);
  void give_up(Stream& stream, Code code);
  void open_waiting();
  [[nodiscard]] bool open_stream(WaitingCall& waiting);
  void apply_shutdowns();
  void strike();
  void update_keep_alive();
  void credit(std::size_t bytes);
  void release(Stream& stream);
  [[nodiscard]] Pacer::Path pacing_path() const;
  [[nodiscard]] bool has_room(ngtcp2_tstamp now) const;
  [[nodiscard]] std::size_t write_packet(std::span<std::uint8_t> into, ngtcp2_path_storage& where,
                                         ngtcp2_pkt_info& info, ngtcp2_tstamp now);

  ConnectionContext& context_;
  ConnectionOwner& owner_;
  const Side side_;
  SocketAddress remote_;
  ngtcp2_conn* quic_ = nullptr;
  std::unique_ptr<TlsSession> tls_;
  EndpointId peer_{};
  wire::Protocol protocol_ = wire::Protocol::moe;
  std::shared_ptr<PeerAccount> account_;

  std::unordered_map<std::int64_t, std::unique_ptr<Stream>> streams_;
  std::map<PeerCallId, Stream*> calls_;
  std::vector<WaitingCall> waiting_;  ///< oldest first; bounded by calls_max
  /// Streams to be reset once the library may be entered.
  std::vector<std::pair<std::int64_t, Code>> shutdowns_;
  SendQueue queue_;
  MtuGuard mtu_;
  Pacer pacer_;
  ngtcp2_tstamp latest_ = 0;               ///< the library has been told
  ngtcp2_tstamp resumes_at_ = UINT64_MAX;  ///< the end of a pause that holds bytes back
  std::size_t unacknowledged_ = 0;         ///< stream bytes
  std::size_t withheld_ = 0;               ///< arrived, not yet credited
  int strikes_ = 0;
  bool is_connected_ = false;
  bool is_dead_ = false;
  bool is_kept_alive_ = false;
};

}  // namespace tenzro::net
