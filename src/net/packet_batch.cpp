#include "packet_batch.hpp"

namespace tenzro::net {

std::span<std::uint8_t> PacketBatch::room(std::size_t packet_max) {
  if (buffer_.size() - end_ < packet_max) {
    flush();
    begin_ = end_ = 0;
  }
  return buffer_.subspan(end_, packet_max);
}

bool PacketBatch::fits(std::size_t bytes, const SocketAddress& to, std::uint8_t ecn) const {
  const std::size_t gathered = end_ - begin_;
  const bool was_short = gathered % segment_ != 0;
  return !was_short && bytes <= segment_ && ecn == ecn_ && count_ < kBatchSegmentsMax &&
         gathered + bytes <= kBatchBytesMax && to == to_;
}

void PacketBatch::add(std::size_t bytes, const ngtcp2_addr& to, std::uint8_t ecn) {
  const SocketAddress address(to.addr, static_cast<socklen_t>(to.addrlen));
  if (begin_ != end_ && !fits(bytes, address, ecn)) flush();
  if (begin_ == end_) {
    segment_ = bytes;
    to_ = address;
    ecn_ = ecn;
    count_ = 0;
  }
  end_ += bytes;
  ++count_;
}

void PacketBatch::flush() {
  if (begin_ == end_) return;
  socket_.send({.to = to_,
                .ecn = ecn_,
                .segment = segment_,
                .bytes = buffer_.subspan(begin_, end_ - begin_)});
  begin_ = end_;
}

}  // namespace tenzro::net
