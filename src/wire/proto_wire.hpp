#pragma once
/// \file
/// The wire format of protocol buffers, as far as our messages need it: varints and
/// length-delimited fields.
///
/// Why by hand (adr/0006): headers are small, read on every call, and come from peers. Here every
/// count is checked against the bytes that are there before anything is allocated, and a repeated
/// singular field is seen. Rules
///  - Varints are at most 10 bytes and fit 64 bits. Field numbers are 1..2^29-1.
///  - Fixed-width fields are skipped; groups are malformed.
/// Pure.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenzro::wire {

inline constexpr std::uint32_t kProtoVarint = 0;
inline constexpr std::uint32_t kProtoDelimited = 2;

struct ProtoField {
  std::uint32_t number = 0;
  /// kProtoVarint, kProtoDelimited; 1 and 5: fixed width.
  std::uint32_t type = 0;
  std::uint64_t varint = 0;
  std::span<const std::uint8_t> bytes;
};

/// Gives the fields of one message; `failed` tells a broken message from its end.
class ProtoReader {
 public:
  explicit ProtoReader(std::span<const std::uint8_t> message) : rest_(message) {}

  [[nodiscard]] std::optional<ProtoField> next();

  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::optional<ProtoField> fail();

  std::span<const std::uint8_t> rest_;
  bool failed_ = false;
};

/// The values of a packed field: at most `max`, each 32 bits; nothing where they are not.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> read_packed(
    std::span<const std::uint8_t> packed, std::size_t max);

class ProtoWriter {
 public:
  void reserve(std::size_t bytes) { out_.reserve(bytes); }

  /// Zero is the default and is left out.
  void varint(std::uint32_t number, std::uint64_t value);
  void bytes(std::uint32_t number, std::span<const std::uint8_t> value);
  void text(std::uint32_t number, std::string_view value);
  void packed(std::uint32_t number, std::span<const std::uint32_t> values);

  [[nodiscard]] const std::vector<std::uint8_t>& message() const { return out_; }

 private:
  void put(std::uint64_t value);

  std::vector<std::uint8_t> out_;
};

}  // namespace tenzro::wire
