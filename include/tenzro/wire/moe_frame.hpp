#pragma once
/// \file
/// Frames of tenzro/moe: four bytes of length, little-endian, then that many bytes of JSON.
///
/// One frame is the whole of a request or a reply: bytes after it, or too few, make it no frame.
/// Error: invalid_params. Pure. Thread: any.
#include <string_view>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/wire/protocol.hpp"

namespace tenzro::wire {

inline constexpr std::size_t kMoeLengthBytes = 4;

/// The JSON, a view into `frame`.
[[nodiscard]] Result<std::string_view> moe_frame_body(const BufferRef& frame);

/// Length and body; the body is not copied. Error: a body above kMoeFrameBytesMax.
[[nodiscard]] Result<std::vector<BufferRef>> make_moe_frame(BufferRef body);

}  // namespace tenzro::wire
