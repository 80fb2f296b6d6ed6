// Connection: packets out.
#include <algorithm>

#include "connection.hpp"

namespace tenzro::net {
namespace {

/// Pauses shorter than this cost more than they smooth out: what the path carries in that time may
/// leave at once.
constexpr std::uint64_t kPauseMin = NGTCP2_MILLISECONDS;
/// In flight to a peer that answers within kPauseMin. More is not faster, and overflows its socket:
/// the loss would shrink the congestion window, which grows back slowly where round trips are
/// short.
constexpr std::size_t kNearBytesMax = 1 << 20;
/// Of one turn, so that what arrives meanwhile is read.
constexpr std::size_t kBurstBytesMax = 512 << 10;

}  // namespace

std::size_t Connection::burst() const {
  const compat::PathState state = compat::path_state(quic_);
  const std::uint64_t rtt = std::max<std::uint64_t>(state.smoothed_rtt, NGTCP2_MICROSECONDS);
  // A window is at most some megabytes: no overflow.
  const std::uint64_t carried = state.congestion_window * kPauseMin / rtt;
  return std::max(ngtcp2_conn_get_send_quantum(quic_),
                  static_cast<std::size_t>(std::min<std::uint64_t>(carried, kBurstBytesMax)));
}

bool Connection::is_near() const {
  return compat::path_state(quic_).smoothed_rtt < kPauseMin;
}

/// Whether stream bytes may go out.
bool Connection::has_room() const {
  if (ngtcp2_conn_get_max_data_left(quic_) == 0) return false;
  return unacknowledged_ < kNearBytesMax || !is_near();
}

/// Whether there is a pause now, which the connection's expiry ends.
bool Connection::pace(std::size_t sent, ngtcp2_tstamp now) {
  // A window that comes round within the shortest pause paces itself by its acknowledgements.
  if (is_near()) return false;
  unpaced_ += sent;
  if (unpaced_ < burst()) return false;
  ngtcp2_conn_update_pkt_tx_time(quic_, now);
  unpaced_ = 0;
  return true;
}

void Connection::write(ngtcp2_tstamp now) {
  if (is_dead_) return;
  PacketBatch batch(context_.socket, context_.buffer);
  ngtcp2_path_storage where;
  ngtcp2_path_storage_zero(&where);
  ngtcp2_pkt_info info{};
  const std::size_t packet_max = mtu_.limit(ngtcp2_conn_get_max_tx_udp_payload_size(quic_));
  const std::size_t budget = burst();
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
  const bool is_paused = pace(sent, now);
  if (sent >= budget && !is_paused) owner_.on_dirty(*this);
  apply_shutdowns();
}

/// One packet of whatever is to be sent. 0: nothing more may go out now; the connection may be
/// dead.
std::size_t Connection::write_packet(std::span<std::uint8_t> into, ngtcp2_path_storage& where,
                                     ngtcp2_pkt_info& info, ngtcp2_tstamp now) {
  while (true) {
    Stream* stream = has_room() ? queue_.next() : nullptr;
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
