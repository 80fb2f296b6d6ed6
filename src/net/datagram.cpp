#include "datagram.hpp"

#include "tenzro/base/assert.hpp"

namespace tenzro::net {

std::optional<DatagramHead> read_head(std::span<const std::uint8_t> payload) {
  if (payload.empty()) return std::nullopt;
  ngtcp2_version_cid ids{};
  const int code =
      ngtcp2_pkt_decode_version_cid(&ids, payload.data(), payload.size(), kConnectionIdBytes);
  if (code != 0 && code != NGTCP2_ERR_VERSION_NEGOTIATION) return std::nullopt;
  DatagramHead head{.kind = code == 0 ? DatagramKind::packet : DatagramKind::unknown_version,
                    .is_long = (payload.front() & 0x80U) != 0,
                    .version = ids.version,
                    .destination = {ids.dcid, ids.dcidlen},
                    .source = {ids.scid, ids.scidlen}};
  if (head.kind == DatagramKind::packet &&
      (ids.dcidlen > NGTCP2_MAX_CIDLEN || ids.scidlen > NGTCP2_MAX_CIDLEN)) {
    return std::nullopt;
  }
  return head;
}

ngtcp2_cid connection_id_of(std::span<const std::uint8_t> bytes) {
  TENZRO_ASSERT(bytes.size() <= NGTCP2_MAX_CIDLEN);
  ngtcp2_cid id;
  ngtcp2_cid_init(&id, bytes.data(), bytes.size());
  return id;
}

}  // namespace tenzro::net
