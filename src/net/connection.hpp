#pragma once
/// \file
/// One QUIC connection: streams that carry calls, over packets.
///
/// Rules
///  - What happens is recorded with the owner while a packet is read or written; the owner acts on
///    it afterwards. The library must not be entered again from its own callbacks.
///  - A side that dialled opens streams, a side that accepted serves them; never the other way.
///  - Flow control. A stream's window is kStreamWindow. The connection's is small until the peer
///    has proved its key, then kConnectionWindow. Bytes are credited as they arrive, an eighth of
///    it at a time, as long as the peer's messages in the making stay below peer_bytes_max; else
///    when one is handed over.
///  - kStrikesMax refused requests end the connection.
///  - Packets are small until the handshake is confirmed: the library fills the first ones up, and
///  a
///    node that many dial at once would lose in its socket what those bytes take.
/// A dead connection stays until its owner deletes it. Thread: the loop's.
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "connection_owner.hpp"
#include "connection_parts.hpp"
#include "mtu_guard.hpp"
#include "pacer.hpp"
#include "send_queue.hpp"
#include "stream.hpp"

namespace tenzro::net {

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

  [[nodiscard]] const EndpointId& peer() const { return peer_; }  ///< known once connected

  [[nodiscard]] wire::Protocol protocol() const { return protocol_; }

  [[nodiscard]] const SocketAddress& remote() const { return remote_; }

  void join(std::shared_ptr<PeerAccount> account) { account_ = std::move(account); }

  [[nodiscard]] const std::shared_ptr<PeerAccount>& account() const { return account_; }

  /// For the owner's bookkeeping.
  bool is_listed_dirty = false;
  ngtcp2_tstamp listed_expiry = UINT64_MAX;

 private:
  friend struct ConnectionCallbacks;

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
  void acknowledge(ngtcp2_tstamp now);
  void send_close(const compat::CloseReason& reason, ngtcp2_tstamp now);
  void send_alone(std::span<std::uint8_t> buffer, ngtcp2_ssize size,
                  const ngtcp2_path_storage& where, const ngtcp2_pkt_info& info);
  void finish_call(Stream& stream, Result<BufferRef> outcome);
  void finish_message(Stream& stream);
  void give_up(Stream& stream, Code code);
  void open_waiting();
  [[nodiscard]] bool open_stream(WaitingCall& waiting);
  void apply_shutdowns();
  void strike();
  void update_keep_alive();
  void return_stream();
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
  std::size_t unreturned_streams_ = 0;
  int strikes_ = 0;
  bool is_connected_ = false;
  bool is_confirmed_ = false;  ///< both sides have finished the handshake
  bool is_dead_ = false;
  bool is_kept_alive_ = false;
};

}  // namespace tenzro::net
