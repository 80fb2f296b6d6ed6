#pragma once
/// \file
/// What differs between ngtcp2 0.12 and 1.x, under one name each.
#include <cstddef>
#include <cstdint>

#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>

namespace tenzro::net::compat {

struct PathState {
  ngtcp2_duration smoothed_rtt = 0;
  std::uint64_t congestion_window = 0;
};

#if NGTCP2_VERSION_NUM >= 0x010000

using CloseReason = ngtcp2_ccerr;
using IdChange = ngtcp2_connection_id_status_type;
/// A timeout that never comes.
inline constexpr ngtcp2_duration kKeepAliveOff = UINT64_MAX;

inline CloseReason close_with_application_code(std::uint64_t code) {
  CloseReason reason;
  ngtcp2_ccerr_set_application_error(&reason, code, nullptr, 0);
  return reason;
}

inline CloseReason close_with_library_error(ngtcp2_conn* connection, int error) {
  CloseReason reason;
  if (error == NGTCP2_ERR_CRYPTO) {
    ngtcp2_ccerr_set_tls_alert(&reason, ngtcp2_conn_get_tls_alert(connection), nullptr, 0);
  } else {
    ngtcp2_ccerr_set_liberr(&reason, error, nullptr, 0);
  }
  return reason;
}

inline void set_original_id(ngtcp2_transport_params& params, const ngtcp2_cid& id) {
  params.original_dcid = id;
  params.original_dcid_present = 1;
}

inline void set_retry_token(ngtcp2_settings& settings, const std::uint8_t* token,
                            std::size_t size) {
  settings.token = token;
  settings.tokenlen = size;
  settings.token_type = NGTCP2_TOKEN_TYPE_RETRY;
}

inline const std::uint8_t* token_of(const ngtcp2_pkt_hd& header) {
  return header.token;
}

inline std::size_t token_size_of(const ngtcp2_pkt_hd& header) {
  return header.tokenlen;
}

inline PathState path_state(ngtcp2_conn* connection) {
  ngtcp2_conn_info info;
  ngtcp2_conn_get_conn_info(connection, &info);
  return {info.smoothed_rtt, info.cwnd};
}

inline int shutdown_stream(ngtcp2_conn* connection, std::int64_t stream, std::uint64_t code) {
  return ngtcp2_conn_shutdown_stream(connection, 0, stream, code);
}

#else

using CloseReason = ngtcp2_connection_close_error;
using IdChange = int;
inline constexpr ngtcp2_duration kKeepAliveOff = 0;

inline CloseReason close_with_application_code(std::uint64_t code) {
  CloseReason reason;
  ngtcp2_connection_close_error_set_application_error(&reason, code, nullptr, 0);
  return reason;
}

inline CloseReason close_with_library_error(ngtcp2_conn* connection, int error) {
  CloseReason reason;
  if (error == NGTCP2_ERR_CRYPTO) {
    ngtcp2_connection_close_error_set_transport_error_tls_alert(
        &reason, ngtcp2_conn_get_tls_alert(connection), nullptr, 0);
  } else {
    ngtcp2_connection_close_error_set_transport_error_liberr(&reason, error, nullptr, 0);
  }
  return reason;
}

inline void set_original_id(ngtcp2_transport_params& params, const ngtcp2_cid& id) {
  params.original_dcid = id;
}

inline void set_retry_token(ngtcp2_settings& settings, std::uint8_t* token, std::size_t size) {
  settings.token = {token, size};
}

inline std::uint8_t* token_of(const ngtcp2_pkt_hd& header) {
  return header.token.base;
}

inline std::size_t token_size_of(const ngtcp2_pkt_hd& header) {
  return header.token.len;
}

inline PathState path_state(ngtcp2_conn* connection) {
  ngtcp2_conn_stat stat;
  ngtcp2_conn_get_conn_stat(connection, &stat);
  return {stat.smoothed_rtt, stat.cwnd};
}

inline int shutdown_stream(ngtcp2_conn* connection, std::int64_t stream, std::uint64_t code) {
  return ngtcp2_conn_shutdown_stream(connection, stream, code);
}

#endif

}  // namespace tenzro::net::compat
