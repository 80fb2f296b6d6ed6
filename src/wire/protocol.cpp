#include "tenzro/wire/protocol.hpp"

namespace tenzro::wire {
namespace {

/// Room for what stands around the payload of a message.
constexpr std::size_t kHeadBytesMax = 64ULL << 10U;

}  // namespace

std::string_view alpn_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::moe:
      return "tenzro/moe";
    case Protocol::exec:
      return "tenzro/exec/1";
    case Protocol::gossip:
      return "tenzro/gossip/1";
    case Protocol::blob:
      return "tenzro/blob/1";
  }
  return "";
}

std::optional<Protocol> protocol_from_alpn(std::string_view alpn) {
  for (const Protocol protocol : kProtocols) {
    if (alpn_of(protocol) == alpn) return protocol;
  }
  return std::nullopt;
}

ProtocolLimits limits_of(Protocol protocol) {
  constexpr std::size_t kLengthBytes = 4;
  switch (protocol) {
    case Protocol::moe:
      return {kMoeFrameBytesMax + kLengthBytes, kMoeFrameBytesMax + kLengthBytes};
    case Protocol::exec:
      return {kExecMessageBytesMax, kExecMessageBytesMax};
    case Protocol::gossip:
      return {kGossipMessageBytesMax, kGossipMessageBytesMax};
    case Protocol::blob:
      return {kHeadBytesMax, kBlobRangeBytesMax + kHeadBytesMax};
  }
  return {};
}

}  // namespace tenzro::wire
