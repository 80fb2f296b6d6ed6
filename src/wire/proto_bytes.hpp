#pragma once
/// \file
/// Between protobuf's strings and our byte types.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message_lite.h>

#include "tenzro/base/bytes.hpp"

namespace tenzro::wire {

[[nodiscard]] inline std::string to_text(std::span<const std::uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

/// False where the length differs.
template <std::size_t N>
[[nodiscard]] bool read_array(const std::string& from, std::array<std::uint8_t, N>& to) {
  if (from.size() != N) return false;
  std::copy(from.begin(), from.end(), to.begin());
  return true;
}

/// Parses without following nested groups, so that hostile bytes cannot make it recurse.
[[nodiscard]] inline bool parse_flat(google::protobuf::MessageLite& message,
                                     std::span<const std::uint8_t> bytes) {
  google::protobuf::io::CodedInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  in.SetRecursionLimit(4);
  return message.ParseFromCodedStream(&in) && in.ConsumedEntireMessage();
}

[[nodiscard]] inline std::vector<std::uint8_t> serialize(
    const google::protobuf::MessageLite& message) {
  std::vector<std::uint8_t> bytes(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(bytes.data());
  return bytes;
}

}  // namespace tenzro::wire
