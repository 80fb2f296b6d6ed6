#include "connection.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "connection_callbacks.hpp"
#include "datagram.hpp"

namespace tenzro::net {
namespace {

/// Far below the default of 25 ms: calls are short, and a lost packet is noticed by its silence.
constexpr ngtcp2_duration kAckDelay = 5 * NGTCP2_MILLISECONDS;
/// A guess for the first packets, until a round trip was measured.
constexpr ngtcp2_duration kInitialRtt = 100 * NGTCP2_MILLISECONDS;
/// What Ethernet carries over IPv6; probing finds out whether the path does.
constexpr std::size_t kPacketBytesMax = 1452;

ngtcp2_duration nanoseconds(Duration duration) {
  return static_cast<ngtcp2_duration>(std::chrono::nanoseconds(duration).count());
}

ngtcp2_cid random_id() {
  std::array<std::uint8_t, kConnectionIdBytes> bytes{};
  fill_random(bytes);
  return connection_id_of(bytes);
}

ngtcp2_settings make_settings(Duration handshake_timeout, const SocketAddress& remote,
                              const UdpSocket& socket) {
  ngtcp2_settings settings;
  ngtcp2_settings_default(&settings);
  settings.initial_ts = ConnectionCallbacks::now();
  settings.initial_rtt = kInitialRtt;
  settings.cc_algo = NGTCP2_CC_ALGO_CUBIC;
  settings.max_tx_udp_payload_size = kPacketBytesMax;
  // Larger packets cost less, and the congestion window, which the library bounds by a number of
  // packets where round trips are short, holds more. The interface says what it takes: no probing.
  const std::size_t loopback_max =
      std::min(socket.loopback_bytes_max(), PacketBatch::kPacketBytesMax);
  if (remote.is_loopback() && loopback_max > kPacketBytesMax) {
    settings.max_tx_udp_payload_size = loopback_max;
    settings.no_tx_udp_payload_size_shaping = 1;
    settings.no_pmtud = 1;
  }
  settings.handshake_timeout = nanoseconds(handshake_timeout);
  return settings;
}

ngtcp2_transport_params make_params(const Options& options, Side side) {
  ngtcp2_transport_params params;
  ngtcp2_transport_params_default(&params);
  params.initial_max_data = Connection::kFirstWindow;
  params.initial_max_stream_data_bidi_local = Connection::kStreamWindow;
  params.initial_max_stream_data_bidi_remote = Connection::kStreamWindow;
  params.initial_max_streams_bidi = side == Side::server ? options.streams_max : 0;
  params.initial_max_streams_uni = 0;
  params.max_idle_timeout = nanoseconds(options.idle_timeout);
  params.max_ack_delay = kAckDelay;
  return params;
}

}  // namespace

Connection::Connection(ConnectionContext& context, ConnectionOwner& owner, Side side,
                       const SocketAddress& remote)
    : context_(context), owner_(owner), side_(side), remote_(remote) {}

Connection::~Connection() {
  // The library first: it still uses the session's keys while it is taken down.
  ngtcp2_conn_del(quic_);
}

std::unique_ptr<Connection> Connection::dial(ConnectionContext& context, ConnectionOwner& owner,
                                             const DialOptions& options) {
  std::unique_ptr<Connection> made(new Connection(context, owner, Side::client, options.to));
  return made->start_client(options) ? std::move(made) : nullptr;
}

std::unique_ptr<Connection> Connection::accept(ConnectionContext& context, ConnectionOwner& owner,
                                               const AcceptOptions& options) {
  std::unique_ptr<Connection> made(new Connection(context, owner, Side::server, options.from));
  return made->start_server(options) ? std::move(made) : nullptr;
}

bool Connection::start_client(const DialOptions& options) {
  const ngtcp2_settings settings =
      make_settings(options.handshake_timeout, remote_, context_.socket);
  latest_ = settings.initial_ts;
  const ngtcp2_transport_params params = make_params(context_.options, side_);
  const ngtcp2_callbacks callbacks = ConnectionCallbacks::make(side_);
  const ngtcp2_cid source = random_id();
  const ngtcp2_cid destination = random_id();
  const ngtcp2_path where = path();
  const int code =
      ngtcp2_conn_client_new(&quic_, &destination, &source, &where, NGTCP2_PROTO_VER_V1, &callbacks,
                             &settings, &params, nullptr, this);
  if (code != 0) return false;
  tls_ = context_.identity.client(quic_, options.expected, options.protocol);
  if (!tls_) return false;
  ngtcp2_conn_set_tls_native_handle(quic_, tls_->native_handle());
  owner_.on_connection_id(*this, source);
  return true;
}

bool Connection::start_server(const AcceptOptions& options) {
  const ngtcp2_pkt_hd& header = *options.header;
  ngtcp2_settings settings =
      make_settings(context_.options.handshake_timeout, remote_, context_.socket);
  latest_ = settings.initial_ts;
  ngtcp2_transport_params params = make_params(context_.options, side_);
  const ngtcp2_callbacks callbacks = ConnectionCallbacks::make(side_);
  const ngtcp2_cid source = random_id();
  compat::set_original_id(params, options.before_retry.value_or(header.dcid));
  if (options.before_retry) {
    params.retry_scid = header.dcid;
    params.retry_scid_present = 1;
    compat::set_retry_token(settings, compat::token_of(header), compat::token_size_of(header));
  }
  params.stateless_reset_token_present = 1;
  if (!ConnectionCallbacks::make_reset_token(context_, source, params.stateless_reset_token)) {
    return false;
  }
  const ngtcp2_path where = path();
  const int code = ngtcp2_conn_server_new(&quic_, &header.scid, &source, &where, header.version,
                                          &callbacks, &settings, &params, nullptr, this);
  if (code != 0) return false;
  tls_ = context_.identity.server(quic_);
  if (!tls_) return false;
  ngtcp2_conn_set_tls_native_handle(quic_, tls_->native_handle());
  owner_.on_connection_id(*this, header.dcid);
  owner_.on_connection_id(*this, source);
  return true;
}

ngtcp2_path Connection::path() const {
  return {context_.socket.local().for_path(), remote_.for_path(), nullptr};
}

ngtcp2_tstamp Connection::expiry() const {
  return is_dead_ ? UINT64_MAX : std::min(ngtcp2_conn_get_expiry(quic_), resumes_at_);
}

ngtcp2_tstamp Connection::advance(ngtcp2_tstamp now) {
  return latest_ = std::max(latest_, now);
}

void Connection::read(const Datagram& datagram, ngtcp2_tstamp now) {
  if (is_dead_) return;
  now = advance(now);
  ngtcp2_path where = path();
  where.remote = datagram.from.for_path();
  const ngtcp2_pkt_info info{datagram.ecn};
  const int code =
      ngtcp2_conn_read_pkt(quic_, &where, &info, datagram.bytes.data(), datagram.bytes.size(), now);
  if (code != 0) {
    close_after(code, now);
    return;
  }
  apply_shutdowns();
  open_waiting();
  owner_.on_dirty(*this);
}

void Connection::on_time(ngtcp2_tstamp now) {
  if (is_dead_) return;
  now = advance(now);
  mtu_.on_time(
      now, std::max<ngtcp2_duration>(3 * ngtcp2_conn_get_pto(quic_), 200 * NGTCP2_MILLISECONDS));
  const int code = ngtcp2_conn_handle_expiry(quic_, now);
  if (code != 0) {
    close_after(code, now);
    return;
  }
  apply_shutdowns();
  owner_.on_dirty(*this);
}

void Connection::close_after(int library_error, ngtcp2_tstamp now) {
  switch (library_error) {
    case NGTCP2_ERR_DRAINING:
    case NGTCP2_ERR_CLOSING:
      return lose({ErrorCode::io, remote_.text(), "the peer closed the connection"},
                  Unheard::are_unserved);
    case NGTCP2_ERR_IDLE_CLOSE:
      return lose({ErrorCode::io, remote_.text(), "the peer has gone silent"});
    case NGTCP2_ERR_HANDSHAKE_TIMEOUT:
      return lose({ErrorCode::io, remote_.text(), "no answer"});
    case NGTCP2_ERR_DROP_CONN:
    case NGTCP2_ERR_RETRY:
      return lose({ErrorCode::io, remote_.text(), "not a QUIC client"});
    default:
      break;
  }
  send_close(compat::close_with_library_error(quic_, library_error), now);
  if (tls_->is_wrong_peer()) {
    return lose({ErrorCode::forbidden, remote_.text(), "another key answered"});
  }
  lose({ErrorCode::io, remote_.text(), ngtcp2_strerror(library_error)});
}

void Connection::close(Code code, const Error& error, ngtcp2_tstamp now) {
  if (is_dead_) return;
  acknowledge(now);
  send_close(compat::close_with_application_code(static_cast<std::uint64_t>(code)), advance(now));
  lose(error);
}

/// Tells the peer what has arrived: it takes requests that were not acknowledged for unserved.
void Connection::acknowledge(ngtcp2_tstamp now) {
  if (!is_connected_) return;
  ngtcp2_path_storage where;
  ngtcp2_path_storage_zero(&where);
  ngtcp2_pkt_info info{};
  std::array<std::uint8_t, kFirstDatagramBytesMin> buffer{};
  // The library acknowledges nothing before the delay that it was granted is over.
  const ngtcp2_ssize size = ngtcp2_conn_write_pkt(quic_, &where.path, &info, buffer.data(),
                                                  buffer.size(), advance(now + kAckDelay));
  send_alone(buffer, size, where, info);
}

void Connection::send_close(const compat::CloseReason& reason, ngtcp2_tstamp now) {
  ngtcp2_path_storage where;
  ngtcp2_path_storage_zero(&where);
  ngtcp2_pkt_info info{};
  std::array<std::uint8_t, kPacketBytesMax> buffer{};
  const ngtcp2_ssize size = ngtcp2_conn_write_connection_close(
      quic_, &where.path, &info, buffer.data(), buffer.size(), &reason, now);
  send_alone(buffer, size, where, info);
}

/// The first `size` bytes, if any, as a packet of its own: packets before it may still stand in the
/// shared buffer.
void Connection::send_alone(std::span<std::uint8_t> buffer, ngtcp2_ssize size,
                            const ngtcp2_path_storage& where, const ngtcp2_pkt_info& info) {
  if (size <= 0) return;
  const ngtcp2_addr& to = where.path.remote;
  const auto bytes = static_cast<std::size_t>(size);
  context_.socket.send({.to = SocketAddress(to.addr, static_cast<socklen_t>(to.addrlen)),
                        .ecn = static_cast<std::uint8_t>(info.ecn),
                        .segment = bytes,
                        .bytes = buffer.first(bytes)});
}

void Connection::lose(const Error& error, Unheard unheard) {
  is_dead_ = true;
  const Error unserved{ErrorCode::cancelled, error.where, "the call did not reach the peer"};
  for (const auto& [id, stream] : streams_) {
    const bool is_unserved = unheard == Unheard::are_unserved && !stream->out.is_heard();
    if (stream->call) finish_call(*stream, fail(is_unserved ? unserved : error));
    if (stream->request) owner_.on_request_gone(*std::exchange(stream->request, std::nullopt));
    release(*stream);
  }
  for (const WaitingCall& waiting : std::exchange(waiting_, {})) {
    owner_.on_call_ended(waiting.call, fail(error));
  }
  owner_.on_lost(*this, error);
}

}  // namespace tenzro::net
