#include "connection_callbacks.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "datagram.hpp"

namespace tenzro::net {
namespace {

Connection& connection_of(void* user) {
  return *static_cast<Connection*>(user);
}

Error error_of(std::uint64_t code, const SocketAddress& remote) {
  if (code == static_cast<std::uint64_t>(Code::refused)) {
    return {ErrorCode::runtime, remote.text(), "the peer refused the request"};
  }
  return {ErrorCode::io, remote.text(), "the peer reset the stream"};
}

}  // namespace

ngtcp2_tstamp ConnectionCallbacks::now() {
  return static_cast<ngtcp2_tstamp>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

bool ConnectionCallbacks::make_reset_token(const ConnectionContext& context, const ngtcp2_cid& id,
                                           std::uint8_t* token) {
  return ngtcp2_crypto_generate_stateless_reset_token(token, context.reset_secret.data(),
                                                      context.reset_secret.size(), &id) == 0;
}

ngtcp2_callbacks ConnectionCallbacks::make(Side side) {
  ngtcp2_callbacks table{};
  if (side == Side::server) {
    table.recv_client_initial = ngtcp2_crypto_recv_client_initial_cb;
  } else {
    table.client_initial = ngtcp2_crypto_client_initial_cb;
    table.recv_retry = ngtcp2_crypto_recv_retry_cb;
  }
  table.recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb;
  table.encrypt = ngtcp2_crypto_encrypt_cb;
  table.decrypt = ngtcp2_crypto_decrypt_cb;
  table.hp_mask = ngtcp2_crypto_hp_mask_cb;
  table.update_key = ngtcp2_crypto_update_key_cb;
  table.delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb;
  table.delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb;
  table.get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb;
  table.version_negotiation = ngtcp2_crypto_version_negotiation_cb;
  table.rand = [](std::uint8_t* into, std::size_t size, const ngtcp2_rand_ctx*) {
    fill_random({into, size});
  };
  table.get_new_connection_id = new_connection_id;
  table.remove_connection_id = remove_connection_id;
  table.dcid_status = peer_connection_id;
  table.handshake_completed = handshake_completed;
  table.handshake_confirmed = handshake_confirmed;
  table.extend_max_local_streams_bidi = more_streams;
  table.stream_open = stream_open;
  table.recv_stream_data = stream_data;
  table.acked_stream_data_offset = stream_acknowledged;
  table.extend_max_stream_data = stream_window;
  table.stream_reset = stream_reset;
  table.stream_stop_sending = stream_stop_sending;
  table.stream_close = stream_close;
  return table;
}

int ConnectionCallbacks::handshake_completed(ngtcp2_conn* quic, void* user) {
  Connection& self = connection_of(user);
  const std::optional<wire::Protocol> protocol = self.tls_->protocol();
  if (!protocol || !self.tls_->peer()) return NGTCP2_ERR_CALLBACK_FAILURE;
  self.peer_ = *self.tls_->peer();
  self.protocol_ = *protocol;
  if (!self.owner_.on_connected(self)) return NGTCP2_ERR_CALLBACK_FAILURE;
  self.is_connected_ = true;
  self.is_confirmed_ = self.side_ == Side::server;
  ngtcp2_conn_extend_max_offset(quic, Connection::kConnectionWindow - Connection::kFirstWindow);
  return 0;
}

int ConnectionCallbacks::handshake_confirmed(ngtcp2_conn*, void* user) {
  connection_of(user).is_confirmed_ = true;
  return 0;
}

int ConnectionCallbacks::new_connection_id(ngtcp2_conn*, ngtcp2_cid* id, std::uint8_t* token,
                                           std::size_t size, void* user) {
  Connection& self = connection_of(user);
  std::array<std::uint8_t, NGTCP2_MAX_CIDLEN> bytes{};
  fill_random({bytes.data(), size});
  ngtcp2_cid_init(id, bytes.data(), size);
  if (!make_reset_token(self.context_, *id, token)) return NGTCP2_ERR_CALLBACK_FAILURE;
  self.owner_.on_connection_id(self, *id);
  return 0;
}

int ConnectionCallbacks::remove_connection_id(ngtcp2_conn*, const ngtcp2_cid* id, void* user) {
  connection_of(user).owner_.on_connection_id_gone(*id);
  return 0;
}

int ConnectionCallbacks::peer_connection_id(ngtcp2_conn*, compat::IdChange change, std::uint64_t,
                                            const ngtcp2_cid*, const std::uint8_t* token,
                                            void* user) {
  if (token == nullptr) return 0;
  Connection& self = connection_of(user);
  ResetToken copy{};
  std::copy_n(token, copy.size(), copy.begin());
  if (change == NGTCP2_CONNECTION_ID_STATUS_TYPE_ACTIVATE) {
    self.owner_.on_reset_token(self, copy);
  } else {
    self.owner_.on_reset_token_gone(copy);
  }
  return 0;
}

int ConnectionCallbacks::more_streams(ngtcp2_conn*, std::uint64_t, void*) {
  return 0;  // waiting calls are tried again after every packet
}

int ConnectionCallbacks::stream_open(ngtcp2_conn* quic, std::int64_t id, void* user) {
  Connection& self = connection_of(user);
  const std::size_t limit = self.context_.limits(self.protocol_).request_bytes_max;
  auto stream = std::make_unique<Stream>(id, limit);
  ngtcp2_conn_set_stream_user_data(quic, id, stream.get());
  self.streams_[id] = std::move(stream);
  return 0;
}

// NOLINTNEXTLINE(readability-function-size): ngtcp2 names the parameters
int ConnectionCallbacks::stream_data(ngtcp2_conn* quic, std::uint32_t flags, std::int64_t id,
                                     std::uint64_t, const std::uint8_t* data, std::size_t size,
                                     void* user, void* stream_user) {
  Connection& self = connection_of(user);
  auto* stream = static_cast<Stream*>(stream_user);
  if (stream == nullptr || stream->is_in_done) {
    ngtcp2_conn_extend_max_offset(quic, size);
    return 0;
  }
  const bool is_last = (flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0;
  if (!stream->in.append({data, size}, is_last)) {
    ngtcp2_conn_extend_max_offset(quic, size);
    if (stream->call) {
      self.finish_call(*stream, fail(ErrorCode::no_space, self.remote_.text(),
                                     "the reply is larger than its protocol allows"));
    } else {
      self.strike();
    }
    self.give_up(*stream, Code::too_large);
    return 0;
  }
  stream->held += size;
  if (self.account_) self.account_->held += size;
  ngtcp2_conn_extend_max_stream_offset(quic, id, size);
  self.credit(size);
  if (is_last) self.finish_message(*stream);
  return 0;
}

int ConnectionCallbacks::stream_acknowledged(ngtcp2_conn*, std::int64_t, std::uint64_t offset,
                                             std::uint64_t size, void* user, void* stream_user) {
  Connection& self = connection_of(user);
  if (stream_user == nullptr) return 0;
  auto* stream = static_cast<Stream*>(stream_user);
  self.unacknowledged_ -= stream->out.unacknowledged();
  stream->out.on_acknowledged(offset + size);
  self.unacknowledged_ += stream->out.unacknowledged();
  if (self.mtu_.on_progress(now(), self.unacknowledged_ == 0)) self.owner_.on_black_hole();
  return 0;
}

int ConnectionCallbacks::stream_window(ngtcp2_conn*, std::int64_t, std::uint64_t, void* user,
                                       void* stream_user) {
  if (stream_user != nullptr) {
    connection_of(user).queue_.add(*static_cast<Stream*>(stream_user));
  }
  return 0;
}

int ConnectionCallbacks::stream_reset(ngtcp2_conn*, std::int64_t, std::uint64_t, std::uint64_t code,
                                      void* user, void* stream_user) {
  if (stream_user == nullptr) return 0;
  Connection& self = connection_of(user);
  auto& stream = *static_cast<Stream*>(stream_user);
  if (stream.call) self.finish_call(stream, fail(error_of(code, self.remote_)));
  self.give_up(stream, Code::cancelled);
  return 0;
}

int ConnectionCallbacks::stream_stop_sending(ngtcp2_conn*, std::int64_t, std::uint64_t code,
                                             void* user, void* stream_user) {
  if (stream_user == nullptr) return 0;
  Connection& self = connection_of(user);
  auto& stream = *static_cast<Stream*>(stream_user);
  self.queue_.remove(stream);
  stream.out.abandon();
  // A peer that will not read a request but is silent about why still ends the stream
  // (stream_close).
  if (stream.call && code == static_cast<std::uint64_t>(Code::refused)) {
    self.finish_call(stream, fail(error_of(code, self.remote_)));
  }
  if (!stream.call) self.give_up(stream, Code::cancelled);
  return 0;
}

int ConnectionCallbacks::stream_close(ngtcp2_conn* quic, std::uint32_t, std::int64_t id,
                                      std::uint64_t code, void* user, void* stream_user) {
  Connection& self = connection_of(user);
  if (ngtcp2_conn_is_local_stream(quic, id) == 0) self.return_stream();
  if (stream_user == nullptr) return 0;
  auto& stream = *static_cast<Stream*>(stream_user);
  if (stream.call) self.finish_call(stream, fail(error_of(code, self.remote_)));
  if (stream.request) self.owner_.on_request_gone(*std::exchange(stream.request, std::nullopt));
  self.release(stream);
  self.queue_.remove(stream);
  self.unacknowledged_ -= stream.out.unacknowledged();
  ngtcp2_conn_set_stream_user_data(quic, id, nullptr);
  self.streams_.erase(id);
  return 0;
}

}  // namespace tenzro::net
