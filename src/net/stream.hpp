#pragma once
/// \file
/// One call, as bytes: what goes out on its stream, and what comes in.
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include <ngtcp2/ngtcp2.h>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"

namespace tenzro::net {

/// A message of several parts, sent in order and kept until acknowledged. Not copied.
class OutgoingBytes {
 public:
  static constexpr std::size_t kVectorsMax = 16;

  void assign(std::vector<BufferRef> parts);

  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] std::size_t left() const { return size_ - sent_; }

  [[nodiscard]] std::size_t unacknowledged() const { return sent_ - acknowledged_; }

  /// The peer has told that some of it arrived.
  [[nodiscard]] bool is_heard() const { return acknowledged_ > 0; }

  /// Whether bytes or the end are still to be sent.
  [[nodiscard]] bool is_pending() const { return is_assigned_ && !is_end_sent_; }

  /// The next bytes, in at most `into.size()` pieces. Returns how many pieces.
  [[nodiscard]] std::size_t gather(std::span<ngtcp2_vec> into) const;
  /// `bytes` more were taken; `with_end`: and the end of the stream, if nothing is left.
  void on_sent(std::size_t bytes, bool with_end);
  /// Everything before `offset` has arrived: lets go of the parts that end there.
  void on_acknowledged(std::size_t offset);

  /// Nothing more will be sent. The bytes are kept: the transport may still point at them.
  void abandon() { is_assigned_ = false; }

 private:
  std::deque<BufferRef> parts_;
  std::size_t released_ = 0;  ///< bytes of parts let go
  std::size_t sent_ = 0;
  std::size_t acknowledged_ = 0;
  std::size_t size_ = 0;
  bool is_assigned_ = false;
  bool is_end_sent_ = false;
};

/// A message being received into one buffer, which grows with what has really come.
class IncomingBytes {
 public:
  explicit IncomingBytes(std::size_t limit) : limit_(limit) {}

  /// False where the message would be larger than the limit; it is dropped then.
  [[nodiscard]] bool append(std::span<const std::uint8_t> bytes, bool is_last);

  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] BufferRef take();

 private:
  void reserve(std::size_t needed, bool is_last);

  std::size_t limit_;
  std::size_t size_ = 0;
  BufferRef buffer_;
};

struct Stream {
  Stream(std::int64_t stream_id, std::size_t incoming_max) : id(stream_id), in(incoming_max) {}

  std::int64_t id;
  /// Ours: the call it carries, until it has ended.
  std::optional<PeerCallId> call;
  /// The peer's: the request that was handed over, until it is answered.
  std::optional<PeerRequestId> request;
  OutgoingBytes out;
  IncomingBytes in;
  /// Bytes that arrived and are not handed over yet: counted against the peer.
  std::size_t held = 0;
  bool is_queued = false;   ///< in the connection's send queue
  bool is_in_done = false;  ///< nothing more is taken from the peer
};

}  // namespace tenzro::net
