#include "exec_frame.hpp"

#include <algorithm>
#include <cstring>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/exec_message.hpp"
#include "tenzro/wire/protocol.hpp"

namespace tenzro::wire {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::uint32_t kFieldsMax = 31;

bool is_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % alignof(float) == 0;
}

}  // namespace

tl::unexpected<Error> exec_refusal(std::string detail) {
  return fail(ErrorCode::invalid_params, "", std::move(detail));
}

std::size_t framed_bytes(std::size_t header_bytes) {
  const std::size_t all = kLengthBytes + header_bytes;
  return (all + kExecAlignment - 1) / kExecAlignment * kExecAlignment;
}

BufferRef frame_header(std::span<const std::uint8_t> header) {
  TENZRO_ASSERT(header.size() <= UINT32_MAX);
  BufferRef framed = BufferRef::allocate(framed_bytes(header.size()));
  const std::span<std::byte> out = framed.mutable_bytes();
  for (unsigned i = 0; i < kLengthBytes; ++i) {
    out[i] = static_cast<std::byte>(header.size() >> (8 * i));
  }
  if (!header.empty()) std::memcpy(out.data() + kLengthBytes, header.data(), header.size());
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(kLengthBytes + header.size()), out.end(),
            std::byte{0});
  return framed;
}

Result<ExecFrame> read_frame(const BufferRef& message) {
  if (message.size() > kExecMessageBytesMax) {
    return exec_refusal("a message of " + std::to_string(message.size()) + " bytes; the limit is " +
                        std::to_string(kExecMessageBytesMax));
  }
  if (message.size() < kLengthBytes) return exec_refusal("a message without a header");
  const std::uint32_t length = load_u32_le(message.bytes().data());
  if (length > kExecHeaderBytesMax) {
    return exec_refusal("a header of " + std::to_string(length) + " bytes; the limit is " +
                        std::to_string(kExecHeaderBytesMax));
  }
  const std::size_t start = framed_bytes(length);
  if (start > message.size()) return exec_refusal("the header is cut off");
  const std::span<const std::uint8_t> all = as_u8(message.bytes());
  const auto padding = all.subspan(kLengthBytes + length, start - kLengthBytes - length);
  if (std::any_of(padding.begin(), padding.end(), [](std::uint8_t byte) { return byte != 0; })) {
    return exec_refusal("the padding after the header is not zero");
  }
  BufferRef rows = message.slice(start, message.size() - start);
  if (!is_aligned(rows.bytes().data())) rows = BufferRef::copy_of(rows.bytes());
  return ExecFrame{all.subspan(kLengthBytes, length), std::move(rows)};
}

std::optional<ProtoField> ExecFields::next(std::uint32_t known, std::uint32_t delimited,
                                           std::uint32_t repeated) {
  while (!error_) {
    std::optional<ProtoField> field = reader_.next();
    if (!field) break;
    if (field->number > kFieldsMax) continue;
    const std::uint32_t bit = 1U << field->number;
    if ((known & bit) == 0) continue;
    if (field->type != ((delimited & bit) != 0 ? 2U : 0U)) {
      refuse("field " + std::to_string(field->number) + " has another type");
    } else if ((seen_ & bit) != 0 && (repeated & bit) == 0) {
      refuse("field " + std::to_string(field->number) + " is there twice");
    } else {
      seen_ |= bit;
      return field;
    }
  }
  if (reader_.failed()) refuse("malformed");
  return std::nullopt;
}

void ExecFields::refuse(std::string detail) {
  if (!error_) error_ = Error{ErrorCode::invalid_params, std::string(what_), std::move(detail)};
}

void ExecFields::read_u32(const ProtoField& field, std::string_view name, std::uint32_t max,
                          std::uint32_t& out) {
  if (field.varint > max) {
    refuse(std::string(name) + ' ' + std::to_string(field.varint) + " is above " +
           std::to_string(max));
    return;
  }
  out = static_cast<std::uint32_t>(field.varint);
}

void ExecFields::read_bytes(const ProtoField& field, std::string_view name,
                            std::span<std::uint8_t> out) {
  if (field.bytes.size() != out.size()) {
    refuse(std::string(name) + " must have " + std::to_string(out.size()) + " bytes");
    return;
  }
  std::copy(field.bytes.begin(), field.bytes.end(), out.begin());
}

Status ExecFields::finish() const {
  if (error_) return fail(*error_);
  return {};
}

Status check_version(std::uint32_t version, std::uint64_t features) {
  if (version != kExecVersion) {
    return exec_refusal("this node speaks tenzro/exec version " + std::to_string(kExecVersion) +
                        ", not " + std::to_string(version));
  }
  if ((features & ~kExecFeatures) != 0) {
    return exec_refusal("the message needs features that this node lacks: " +
                        std::to_string(features & ~kExecFeatures));
  }
  return {};
}

}  // namespace tenzro::wire
