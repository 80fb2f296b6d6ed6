#include "stream.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tenzro/base/assert.hpp"

namespace tenzro::net {
namespace {
/// First guess for a message that does not come in one piece.
constexpr std::size_t kFirstBytes = 16 << 10;
}  // namespace

void OutgoingBytes::assign(std::vector<BufferRef> parts) {
  TENZRO_ASSERT(!is_assigned_);
  for (BufferRef& part : parts) {
    if (part.empty()) continue;
    size_ += part.size();
    parts_.push_back(std::move(part));
  }
  is_assigned_ = true;
}

std::size_t OutgoingBytes::gather(std::span<ngtcp2_vec> into) const {
  std::size_t begin = released_;
  std::size_t count = 0;
  for (const BufferRef& part : parts_) {
    if (count == into.size()) break;
    const std::size_t end = begin + part.size();
    if (end > sent_) {
      const std::size_t skip = sent_ > begin ? sent_ - begin : 0;
      const void* bytes = part.bytes().data() + skip;
      // The library's vector has no const form; it only reads.
      into[count++] = {static_cast<std::uint8_t*>(const_cast<void*>(bytes)), part.size() - skip};
    }
    begin = end;
  }
  return count;
}

void OutgoingBytes::on_sent(std::size_t bytes, bool with_end) {
  sent_ += bytes;
  TENZRO_ASSERT(sent_ <= size_);
  if (with_end && sent_ == size_) is_end_sent_ = true;
}

void OutgoingBytes::on_acknowledged(std::size_t offset) {
  acknowledged_ = std::max(acknowledged_, offset);
  while (!parts_.empty() && released_ + parts_.front().size() <= offset) {
    released_ += parts_.front().size();
    parts_.pop_front();
  }
}

bool IncomingBytes::append(std::span<const std::uint8_t> bytes, bool is_last) {
  if (bytes.size() > limit_ - size_) {
    (void)take();
    return false;
  }
  if (bytes.empty()) return true;
  reserve(size_ + bytes.size(), is_last);
  std::memcpy(buffer_.mutable_bytes().data() + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
  return true;
}

void IncomingBytes::reserve(std::size_t needed, bool is_last) {
  if (needed <= buffer_.size()) return;
  const std::size_t room =
      is_last ? needed : std::max({needed, kFirstBytes, std::min(2 * buffer_.size(), limit_)});
  BufferRef larger = BufferRef::allocate(room);
  if (size_ != 0) std::memcpy(larger.mutable_bytes().data(), buffer_.bytes().data(), size_);
  buffer_ = std::move(larger);
}

BufferRef IncomingBytes::take() {
  return std::exchange(buffer_, {}).slice(0, std::exchange(size_, 0));
}

}  // namespace tenzro::net
