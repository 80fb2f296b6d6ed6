#pragma once
/// \file
/// One gossip core among peers that the test plays: every call and reply is written by hand.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/crypto/sha256.hpp"
#include "tenzro/crypto/signing.hpp"
#include "tenzro/gossip/gossip.hpp"
#include "tenzro/wire/beat.hpp"

namespace tenzro::testing {

inline constexpr std::uint64_t kWall = 1'800'000'000'000;
inline constexpr crypto::Seed kLoneSeed{200};

/// A peer's key, and what it would say.
struct Player {
  explicit Player(std::uint8_t number)
      : key(crypto::KeyPair::from_seed(crypto::Seed{number})),
        address("peer-" + std::to_string(number) + ":9001") {}

  explicit Player(const crypto::Seed& seed)
      : key(crypto::KeyPair::from_seed(seed)), address("peer:9001") {}

  [[nodiscard]] wire::Bytes seal(std::string_view tag, std::vector<std::uint8_t> body) const {
    wire::Bytes message(tag.begin(), tag.end());
    message.insert(message.end(), body.begin(), body.end());
    const crypto::Signature signature = key.sign(message);
    body.insert(body.end(), signature.begin(), signature.end());
    return body;
  }

  [[nodiscard]] wire::Bytes record(const std::string& name = "peer") const {
    wire::ProviderRecord record{
        .public_key = key.public_key(), .version = {kWall, 0}, .name = name};
    record.addresses = {address};
    return seal(wire::kRecordTag, wire::encode_record(record).value());
  }

  /// Made `made_at` after the start, naming that record.
  [[nodiscard]] wire::Bytes beat(std::uint32_t sequence, Duration made_at,
                                 const wire::Bytes& record) const {
    wire::Beat beat{.public_key = key.public_key(), .version = {kWall, sequence}};
    beat.wall_ms =
        kWall + static_cast<std::uint64_t>(
                    std::chrono::duration_cast<std::chrono::milliseconds>(made_at).count());
    const Hash32 digest = crypto::sha256(record);
    std::copy_n(digest.begin(), beat.record_digest.size(), beat.record_digest.begin());
    return seal(wire::kBeatTag, wire::encode_beat(beat));
  }

  crypto::KeyPair key;
  std::string address;
};

class LoneNode {
 public:
  explicit LoneNode(gossip::Options options = {})
      : core_(std::move(options), signing_, prng_, ids_, now_, kWall) {
    wire::ProviderRecord facts;
    facts.name = "self";
    facts.addresses = {"self:9001"};
    core_.set_facts(now_, facts);
    run_for(std::chrono::milliseconds(100));
  }

  /// What the core answers to that message; nothing where it refuses.
  std::optional<wire::GossipMessage> hear(const Player& from, const BufferRef& bytes) {
    gossip::Outbox out;
    const PeerRequestId id{++last_request_};
    core_.on_request(now_,
                     {.id = id,
                      .from = from.key.public_key(),
                      .address = from.address,
                      .protocol = wire::Protocol::gossip,
                      .bytes = bytes},
                     out);
    std::optional<wire::GossipMessage> answer;
    for (const gossip::Action& action : out) {
      const auto* reply = std::get_if<gossip::SendReply>(&action);
      if (reply != nullptr && reply->id == id)
        answer = wire::decode_gossip(as_u8(reply->reply.front().bytes())).value();
    }
    keep(out);
    return answer;
  }

  std::optional<wire::GossipMessage> hear(const Player& from, const wire::GossipMessage& message) {
    return hear(from, wire::encode_gossip(message));
  }

  /// A beat and a record of that peer, by the peer itself, which wants a link.
  void meet(const Player& peer) {
    wire::GossipMessage message{.link = wire::Link::wanted};
    message.records = {peer.record()};
    message.beats = {peer.beat(1, elapsed(), message.records.front())};
    ASSERT_TRUE(hear(peer, message));
    ASSERT_NE(find(peer), nullptr);
    ASSERT_NE(find(peer)->facts, nullptr);
  }

  /// Ticks as they are due. Calls are kept in `calls`; only those to `responsive` peers are
  /// answered by themselves, with nothing, and none that asks for a probe.
  void run_for(Duration time) {
    for (const Instant end = now_ + time; now_ < end;) {
      now_ = now_ + std::chrono::milliseconds(50);
      gossip::Outbox out;
      const auto deadline = core_.next_deadline();
      if (deadline && *deadline <= now_) core_.on_tick(now_, out);
      const std::size_t before = calls.size();
      keep(out);
      for (std::size_t i = before; i < calls.size(); ++i)
        answer_plainly(gossip::SendCall(calls[i]));
    }
  }

  void want_pages(const Player& of, const gossip::Manifests::Wish& wish) {
    core_.want_pages(now_, of.key.address(), wish);
  }

  void answer(const gossip::SendCall& call, const work::CallResult& result) {
    gossip::Outbox out;
    core_.on_reply(now_, call.id, result, out);
    keep(out);
  }

  [[nodiscard]] const membership::Peer* find(const Player& peer) const {
    return core_.membership().find(peer.key.address());
  }

  [[nodiscard]] static wire::GossipMessage said(const gossip::SendCall& call) {
    return wire::decode_gossip(as_u8(call.request.front().bytes())).value();
  }

  [[nodiscard]] Duration elapsed() const { return now_ - start_; }

  [[nodiscard]] gossip::Gossip& core() { return core_; }

  std::vector<gossip::SendCall> calls;
  std::vector<std::string> notices;
  std::vector<ProviderAddress> arrived;  ///< whose pages, in order, also more than once
  std::set<EndpointId> responsive;
  crypto::KeyPair key = crypto::KeyPair::from_seed(kLoneSeed);

 private:
  void answer_plainly(const gossip::SendCall& call) {
    if (!call.target.id || !responsive.contains(*call.target.id) || said(call).probe) return;
    answer(call, work::CallReply{*call.target.id, wire::encode_gossip({})});
  }

  void keep(gossip::Outbox& out) {
    for (gossip::Action& action : out) {
      if (auto* call = std::get_if<gossip::SendCall>(&action)) calls.push_back(std::move(*call));
      if (const auto* pages = std::get_if<gossip::PagesArrived>(&action))
        arrived.push_back(pages->address);
      if (auto* notice = std::get_if<membership::Notice>(&action)) notices.push_back(notice->text);
    }
  }

  Instant start_{std::chrono::seconds(1)};
  Instant now_ = start_;
  std::uint64_t last_request_ = 0;
  Prng prng_{7};
  work::CallIds ids_;
  crypto::KeySigning signing_{key};
  gossip::Gossip core_;
};

}  // namespace tenzro::testing
