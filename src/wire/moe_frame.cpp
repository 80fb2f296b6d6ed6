#include "tenzro/wire/moe_frame.hpp"

#include <string>

#include "tenzro/base/bytes.hpp"

namespace tenzro::wire {

Result<std::string_view> moe_frame_body(const BufferRef& frame) {
  if (frame.size() < kMoeLengthBytes) {
    return fail(ErrorCode::invalid_params, "frame", "is cut off");
  }
  const std::size_t length = load_u32_le(frame.bytes().data());
  if (length > kMoeFrameBytesMax || length != frame.size() - kMoeLengthBytes) {
    return fail(ErrorCode::invalid_params, "frame",
                "says " + std::to_string(length) + " bytes and has " +
                    std::to_string(frame.size() - kMoeLengthBytes));
  }
  return frame.text().substr(kMoeLengthBytes);
}

Result<std::vector<BufferRef>> make_moe_frame(BufferRef body) {
  if (body.size() > kMoeFrameBytesMax) {
    return fail(ErrorCode::invalid_params, "frame",
                "of " + std::to_string(body.size()) + " bytes; the limit is " +
                    std::to_string(kMoeFrameBytesMax));
  }
  BufferRef length = BufferRef::allocate(kMoeLengthBytes);
  for (unsigned i = 0; i < kMoeLengthBytes; ++i) {
    length.mutable_bytes()[i] = static_cast<std::byte>(body.size() >> (8 * i));
  }
  return std::vector<BufferRef>{std::move(length), std::move(body)};
}

}  // namespace tenzro::wire
