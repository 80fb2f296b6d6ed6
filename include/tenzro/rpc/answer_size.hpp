#pragma once
/// \file
/// How much JSON an answer becomes.
///
/// Decides what is encoded on a worker and what is too large to be encoded at all, so it need not
/// be exact: texts of peers (names, URIs) count as what they usually are. At most twice and at
/// least half of the real size where that is above 16 KiB and rows make it up. Pure. Cost: one step
/// a row; tensors, slots and token lists count by their length.
#include <cstddef>

#include "tenzro/rpc/answer.hpp"

namespace tenzro::rpc {

/// A reply of more than this is an error instead; of a batch, all its answers together.
inline constexpr std::size_t kReplyBytesMax = std::size_t{384} << 20U;

/// An answer of no more than this is given also where there is no room for answers: what it tells
/// of has been done.
inline constexpr std::size_t kSmallAnswerBytes = std::size_t{4} << 10U;

/// Bytes, about.
[[nodiscard]] std::size_t json_bytes(const Answer& answer);

}  // namespace tenzro::rpc
