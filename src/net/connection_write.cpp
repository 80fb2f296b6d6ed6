// Connection: packets out.
#include <algorithm>

#include "connection.hpp"
#include "datagram.hpp"

namespace tenzro::net {
namespace {

/// In flight on a near path. More is not faster, and overflows the peer's socket: the loss would
/// shrink the congestion window, which grows back slowly where round trips are short.
constexpr std::size_t kNearBytesMax = 1 << 20;

}  // namespace

Pacer::Path Connection::pacing_path() const {
  const compat::PathState state = compat::path_state(quic_);
  return {.smoothed_rtt = state.smoothed_rtt,
          .congestion_window = state.congestion_window,
          .quantum = ngtcp2_conn_get_send_quantum(quic_)};
}

/// Whether stream bytes may go out.
bool Connection::has_room(ngtcp2_tstamp now) const {
  if (ngtcp2_conn_get_max_data_left(quic_) == 0 || pacer_.is_paused(now)) return false;
  return unacknowledged_ < kNearBytesMax || !Pacer::is_near(pacing_path());
}

void Connection::write(ngtcp2_tstamp now) {
  if (is_dead_) return;
  now = advance(now);
  PacketBatch batch(context_.socket, context_.buffer);
  ngtcp2_path_storage where;
  ngtcp2_path_storage_zero(&where);
  ngtcp2_pkt_info info{};
  const std::size_t packet_max = is_confirmed_
                                     ? mtu_.limit(ngtcp2_conn_get_max_tx_udp_payload_size(quic_))
                                     : kFirstDatagramBytesMin;
  const std::size_t budget = Pacer::burst(pacing_path());
  std::size_t sent = 0;
  while (sent < budget && !context_.socket.is_blocked()) {
    const std::size_t size = write_packet(batch.room(packet_max), where, info, now);
    if (is_dead_ || size == 0) break;
    batch.add(size, where.path.remote, static_cast<std::uint8_t>(info.ecn));
    sent += size;
    if (unacknowledged_ != 0) mtu_.on_sent(now, size);
  }
  batch.flush();
  if (is_dead_) return;
  const bool is_paused = pacer_.on_sent(now, sent, pacing_path());
  if (sent >= budget && !is_paused) owner_.on_dirty(*this);
  const bool is_held = pacer_.is_paused(now) && !queue_.is_empty();
  resumes_at_ = is_held ? pacer_.resumes_at() : UINT64_MAX;
  apply_shutdowns();
}

/// One packet of whatever is to be sent. 0: nothing more may go out now; the connection may be
/// dead.
std::size_t Connection::write_packet(std::span<std::uint8_t> into, ngtcp2_path_storage& where,
                                     ngtcp2_pkt_info& info, ngtcp2_tstamp now) {
  while (true) {
    Stream* stream = has_room(now) ? queue_.next() : nullptr;
    std::array<ngtcp2_vec, OutgoingBytes::kVectorsMax> vectors{};
    std::size_t count = 0;
    std::size_t offered = 0;
    if (stream != nullptr) {
      count = stream->out.gather(vectors);
      for (std::size_t i = 0; i < count; ++i) offered += vectors[i].len;
    }
    const bool with_end = stream != nullptr && offered == stream->out.left();
    const std::uint32_t flags =
        NGTCP2_WRITE_STREAM_FLAG_MORE | (with_end ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0U);
    ngtcp2_ssize taken = -1;
    const ngtcp2_ssize size = ngtcp2_conn_writev_stream(
        quic_, &where.path, &info, into.data(), into.size(), &taken, flags,
        stream != nullptr ? stream->id : -1, vectors.data(), count, now);
    if (stream != nullptr && taken >= 0) {
      const auto bytes = static_cast<std::size_t>(taken);
      stream->out.on_sent(bytes, with_end && bytes == offered);
      unacknowledged_ += bytes;
      if (!stream->out.is_pending()) queue_.remove(*stream);
    }
    if (size >= 0) return static_cast<std::size_t>(size);
    switch (size) {
      case NGTCP2_ERR_WRITE_MORE:
        continue;
      case NGTCP2_ERR_STREAM_DATA_BLOCKED:
      case NGTCP2_ERR_STREAM_SHUT_WR:
      case NGTCP2_ERR_STREAM_NOT_FOUND:
        // Until its window opens; or for good.
        if (stream != nullptr) queue_.remove(*stream);
        continue;
      default:
        break;
    }
    close_after(static_cast<int>(size), now);
    return 0;
  }
}

}  // namespace tenzro::net
