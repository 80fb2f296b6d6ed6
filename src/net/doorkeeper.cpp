#include "doorkeeper.hpp"

#include <algorithm>

#include "connection_callbacks.hpp"

namespace tenzro::net {
namespace {

constexpr ngtcp2_duration kTokenLife = 10 * NGTCP2_SECONDS;
/// RFC 9000, 10.3: an endpoint takes nothing smaller for a stateless reset.
constexpr std::size_t kStatelessResetBytesMin = 21;
constexpr std::size_t kStatelessResetRandomMax = 22;
constexpr std::uint64_t kConnectionRefused = NGTCP2_CONNECTION_REFUSED;

using PacketBuffer = std::array<std::uint8_t, kFirstDatagramBytesMin>;

std::span<const std::uint8_t> written(const PacketBuffer& buffer, ngtcp2_ssize size) {
  return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

}  // namespace

Doorkeeper::Doorkeeper(ConnectionContext& context, std::size_t retry_from)
    : context_(context), retry_from_(retry_from) {
  fill_random(token_secret_);
}

std::optional<Doorkeeper::Admitted> Doorkeeper::admit(const Datagram& datagram,
                                                      const DatagramHead& head, const Load& load,
                                                      ngtcp2_tstamp now) {
  ++counts_.dropped;
  if (head.kind == DatagramKind::unknown_version) {
    if (datagram.bytes.size() >= kFirstDatagramBytesMin && may_answer(now)) {
      send_versions(datagram, head);
    }
    return std::nullopt;
  }
  if (!head.is_long) {
    if (may_answer(now)) send_stateless_reset(datagram, head);
    return std::nullopt;
  }
  Admitted admitted;
  if (datagram.bytes.size() < kFirstDatagramBytesMin ||
      ngtcp2_accept(&admitted.header, datagram.bytes.data(), datagram.bytes.size()) != 0) {
    return std::nullopt;
  }
  if (load.is_full) {
    if (may_answer(now)) send_refusal(datagram, admitted.header);
    return std::nullopt;
  }
  if (load.half_open >= kHalfOpenMax) return std::nullopt;
  if (load.half_open >= retry_from_) {
    if (compat::token_size_of(admitted.header) == 0) {
      if (may_answer(now)) send_retry(datagram, admitted.header, now);
      return std::nullopt;
    }
    std::optional<Admitted> checked = check_token(datagram, admitted.header, now);
    if (!checked) return std::nullopt;
    if (load.half_open_of_sender >= kHalfOpenOfOneMax) return std::nullopt;
    admitted = *checked;
  } else if (compat::token_size_of(admitted.header) != 0) {
    // Begun when tokens were asked for, or another's token, which counts for nothing.
    if (auto checked = check_token(datagram, admitted.header, now)) admitted = *checked;
  }
  --counts_.dropped;
  return admitted;
}

bool Doorkeeper::may_answer(ngtcp2_tstamp now) {
  if (now - second_began_ >= NGTCP2_SECONDS) {
    second_began_ = now;
    answers_ = 0;
  }
  return ++answers_ <= kAnswersPerSecond;
}

void Doorkeeper::send(const Datagram& to, std::span<const std::uint8_t> packet) {
  if (packet.empty() || packet.size() > to.bytes.size()) return;
  context_.socket.send({.to = to.from, .segment = packet.size(), .bytes = packet});
}

void Doorkeeper::send_versions(const Datagram& datagram, const DatagramHead& head) {
  constexpr std::array<std::uint32_t, 1> kVersions = {NGTCP2_PROTO_VER_V1};
  std::uint8_t unused = 0;
  fill_random({&unused, 1});
  PacketBuffer buffer;
  const ngtcp2_ssize size = ngtcp2_pkt_write_version_negotiation(
      buffer.data(), buffer.size(), unused, head.source.data(), head.source.size(),
      head.destination.data(), head.destination.size(), kVersions.data(), kVersions.size());
  send(datagram, written(buffer, size));
}

void Doorkeeper::send_retry(const Datagram& datagram, const ngtcp2_pkt_hd& header,
                            ngtcp2_tstamp now) {
  std::array<std::uint8_t, kConnectionIdBytes> fresh{};
  fill_random(fresh);
  const ngtcp2_cid source = connection_id_of(fresh);
  std::array<std::uint8_t, NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN> token{};
  const ngtcp2_ssize token_size = ngtcp2_crypto_generate_retry_token(
      token.data(), token_secret_.data(), token_secret_.size(), header.version, datagram.from.raw(),
      datagram.from.size(), &source, &header.dcid, now);
  if (token_size <= 0) return;
  PacketBuffer buffer;
  const ngtcp2_ssize size =
      ngtcp2_crypto_write_retry(buffer.data(), buffer.size(), header.version, &header.scid, &source,
                                &header.dcid, token.data(), static_cast<std::size_t>(token_size));
  ++counts_.retries;
  send(datagram, written(buffer, size));
}

std::optional<Doorkeeper::Admitted> Doorkeeper::check_token(const Datagram& datagram,
                                                            const ngtcp2_pkt_hd& header,
                                                            ngtcp2_tstamp now) const {
  ngtcp2_cid original{};
  const int code = ngtcp2_crypto_verify_retry_token(
      &original, compat::token_of(header), compat::token_size_of(header), token_secret_.data(),
      token_secret_.size(), header.version, datagram.from.raw(), datagram.from.size(), &header.dcid,
      kTokenLife, now);
  if (code != 0) return std::nullopt;
  return Admitted{.header = header, .before_retry = original};
}

void Doorkeeper::send_refusal(const Datagram& datagram, const ngtcp2_pkt_hd& header) {
  PacketBuffer buffer;
  const ngtcp2_ssize size = ngtcp2_crypto_write_connection_close(
      buffer.data(), buffer.size(), header.version, &header.scid, &header.dcid, kConnectionRefused,
      nullptr, 0);
  send(datagram, written(buffer, size));
}

void Doorkeeper::send_stateless_reset(const Datagram& datagram, const DatagramHead& head) {
  // Shorter than what it answers, so that two forgetful endpoints end their exchange.
  if (datagram.bytes.size() <= kStatelessResetBytesMin) return;
  if (head.destination.size() != kConnectionIdBytes) return;
  std::array<std::uint8_t, NGTCP2_STATELESS_RESET_TOKENLEN> token{};
  const ngtcp2_cid id = connection_id_of(head.destination);
  if (!ConnectionCallbacks::make_reset_token(context_, id, token.data())) return;
  std::array<std::uint8_t, kStatelessResetRandomMax> random{};
  const std::size_t size = std::min(random.size(), datagram.bytes.size() - token.size() - 1);
  fill_random({random.data(), size});
  PacketBuffer buffer;
  const ngtcp2_ssize packet = ngtcp2_pkt_write_stateless_reset(buffer.data(), buffer.size(),
                                                               token.data(), random.data(), size);
  ++counts_.stateless_resets;
  send(datagram, written(buffer, packet));
}

}  // namespace tenzro::net
