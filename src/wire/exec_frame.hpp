#pragma once
/// \file
/// What requests and replies of tenzro/exec/1 share: the frame around header and rows, and reading
/// header fields strictly.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"

#include "proto_wire.hpp"

namespace tenzro::wire {

/// A bit mask of field numbers.
constexpr std::uint32_t field_bits(std::initializer_list<unsigned> numbers) {
  std::uint32_t mask = 0;
  for (const unsigned number : numbers) mask |= 1U << number;
  return mask;
}

struct ExecFrame {
  std::span<const std::uint8_t> header;
  BufferRef rows;
};

/// Length, header and padding in one buffer.
[[nodiscard]] BufferRef frame_header(std::span<const std::uint8_t> header);
[[nodiscard]] Result<ExecFrame> read_frame(const BufferRef& message);

/// Bytes before the rows.
[[nodiscard]] std::size_t framed_bytes(std::size_t header_bytes);

[[nodiscard]] tl::unexpected<Error> exec_refusal(std::string detail);

/// Fields of one message, known ones told apart. The first thing wrong is kept.
class ExecFields {
 public:
  ExecFields(std::span<const std::uint8_t> message, std::string_view what)
      : reader_(message), what_(what) {}

  /// The next field that `known` has, as a varint or, where listed in `delimited`, as bytes; each
  /// once but for those in `repeated`. All three are bit masks by field number.
  [[nodiscard]] std::optional<ProtoField> next(std::uint32_t known, std::uint32_t delimited,
                                               std::uint32_t repeated);

  void refuse(std::string detail);

  void read_u32(const ProtoField& field, std::string_view name, std::uint32_t max,
                std::uint32_t& out);
  void read_bytes(const ProtoField& field, std::string_view name, std::span<std::uint8_t> out);

  [[nodiscard]] Status finish() const;

 private:
  ProtoReader reader_;
  std::string_view what_;
  std::uint32_t seen_ = 0;
  std::optional<Error> error_;
};

/// Version and features of a message; both stand first.
[[nodiscard]] Status check_version(std::uint32_t version, std::uint64_t features);

}  // namespace tenzro::wire
