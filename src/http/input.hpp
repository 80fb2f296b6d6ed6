#pragma once
/// \file
/// Input: the bytes a connection has received and nobody has consumed yet.
///
/// A fixed buffer, so that a read in flight keeps its address: `space` may move unread bytes to the
/// front, and is called only while no read is in flight.
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tenzro/base/assert.hpp"

namespace tenzro::http {

class Input {
 public:
  explicit Input(std::size_t capacity) : buffer_(capacity) {}

  [[nodiscard]] std::string_view unread() const {
    return {static_cast<const char*>(static_cast<const void*>(buffer_.data())) + begin_,
            end_ - begin_};
  }

  void consume(std::size_t bytes) {
    TENZRO_ASSERT(bytes <= end_ - begin_);
    begin_ += bytes;
  }

  /// Where the next read may write; empty when everything is unread.
  [[nodiscard]] std::span<std::byte> space() {
    if (begin_ != 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    return std::span(buffer_).subspan(end_);
  }

  /// Bytes that a read wrote at the start of `space`.
  void commit(std::size_t bytes) {
    TENZRO_ASSERT(bytes <= buffer_.size() - end_);
    end_ += bytes;
  }

  [[nodiscard]] bool is_full() const { return end_ - begin_ == buffer_.size(); }

 private:
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace tenzro::http
