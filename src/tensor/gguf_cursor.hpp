#pragma once
/// \file
/// GgufCursor: the primitive values of a GGUF header, one after the other.
///
/// After the first failure every read gives a zero value and `ok()` is false; `ran_out()` says that
/// the prefix ended rather than that something was wrong.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tenzro/base/bytes.hpp"

namespace tenzro::tensor {

class GgufCursor {
 public:
  /// Numbers of the format's metadata value types.
  enum Kind : std::uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
  };

  explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool ok() const { return !ran_out_; }

  [[nodiscard]] bool ran_out() const { return ran_out_; }

  [[nodiscard]] std::uint64_t at() const { return at_; }

  /// The next `count` bytes, or nothing where the prefix ends before.
  std::span<const std::byte> take(std::uint64_t count) {
    if (ran_out_ || count > bytes_.size() - at_) {
      ran_out_ = true;
      return {};
    }
    const auto found = bytes_.subspan(at_, count);
    at_ += count;
    return found;
  }

  std::uint32_t number32() {
    const auto bytes = take(sizeof(std::uint32_t));
    return bytes.empty() ? 0 : load_u32_le(bytes.data());
  }

  std::uint64_t number64() {
    const auto bytes = take(sizeof(std::uint64_t));
    return bytes.empty() ? 0 : load_u64_le(bytes.data());
  }

  std::string_view text(std::uint64_t length) {
    const auto bytes = take(length);
    return {static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
  bool ran_out_ = false;
};

/// Bytes of one value of a fixed size; 0 for strings, arrays and unknown kinds.
[[nodiscard]] constexpr std::uint64_t bytes_of_kind(std::uint32_t kind) {
  switch (kind) {
    case GgufCursor::u8:
    case GgufCursor::i8:
    case GgufCursor::boolean:
      return 1;
    case GgufCursor::u16:
    case GgufCursor::i16:
      return 2;
    case GgufCursor::u32:
    case GgufCursor::i32:
    case GgufCursor::f32:
      return 4;
    case GgufCursor::u64:
    case GgufCursor::i64:
    case GgufCursor::f64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace tenzro::tensor
