#pragma once
/// \file
/// Gossip: how beats and records reach everybody, and how a node gets in and out.
///
/// Every message is one call of `tenzro/gossip/1`. Rules
///  - A few links (the active view) are kept: both ends push along them, nobody dials for a beat.
///    A node looks for links below `fanout`, takes others' up to twice that.
///  - A beat goes on at once, coalesced for `flush_after`, to eager links; lazy ones get its 16
///    digest bytes later. Mostly repeats from a link make it lazy on both sides; what was announced
///    and did not come in `graft_after` is asked for, which makes the link eager again. Why: a tree
///    costs each node one copy, and the announcements mend it.
///  - Records are pulled by whoever lacks the one a beat names, once, from who sent the beat; a
///    beat goes on only with its record. Why: a record is large, and a lost call costs a retry
///    alone.
///  - Own changes go out at once, at most one record a `coalesce`; else a beat a heartbeat.
///  - Views are compared (anti-entropy) with one link a heartbeat, now and then with anyone, and
///    with somebody who is down or a bootstrap address: so partitions heal.
///  - A suspect is called, by this node and through `probes` others; an answer carries its own
///    fresh signed beat, so nobody can vouch for the dead.
///  - A bootstrap entry whose key is not the one at that address is given up, with a notice. One
///    that refuses is asked again a heartbeat later; one without a key joins whoever answers.
///  - Bad bytes, a bad signature too: the request is refused from there on and counted. Of a
///  message
///    `signatures_max` signatures are checked. A record is read only where a beat names its digest.
///    Denied endpoints are refused.
///  - Another version or unknown features are answered with a sentence; both ends say so once.
/// Bounds: see Options and wire/gossip_message.hpp; of what does not fit the rest is left to the
/// next comparison. Cost: O(log n) an item, O(n) a comparison. Thread: the owner's only. Pure.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/prng.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/crypto/signing.hpp"
#include "tenzro/gossip/manifests.hpp"
#include "tenzro/membership/membership.hpp"
#include "tenzro/wire/gossip_message.hpp"
#include "tenzro/work/peer.hpp"

namespace tenzro::gossip {

/// "<endpoint id>@host:port" or "host:port".
struct Bootstrap {
  std::optional<EndpointId> id;
  std::string address;
};

/// Error: invalid_params, naming the entry.
[[nodiscard]] Result<Bootstrap> parse_bootstrap(std::string_view text);

struct Options {
  membership::Options membership;
  std::vector<Bootstrap> bootstrap;
  Duration ttl = std::chrono::seconds(30);
  std::size_t fanout = 4;
  Duration flush_after = std::chrono::milliseconds(100);
  Duration announce_after = std::chrono::milliseconds(500);
  Duration graft_after = std::chrono::seconds(1);
  Duration coalesce = std::chrono::milliseconds(150);
  Duration call_timeout = std::chrono::seconds(2);
  /// A node that declined a link is not asked for one before then.
  Duration declined_for = std::chrono::seconds(30);
  std::size_t probes = 3;
  std::size_t relayed_probes_max = 64;
  std::size_t wanted_max = 20'000;
  std::size_t calls_max = 512;
  std::size_t signatures_max = 512;  ///< of beats and records, of one message
  std::size_t reply_bytes_max = 512U << 10U;
};

using work::CancelCall;
using work::RefuseRequest;
using work::SendCall;
using work::SendReply;

/// Wanted pages of that provider's manifest have come, from it or from another that has the same;
/// may be said again.
struct PagesArrived {
  ProviderAddress address{};
};

using Action = std::variant<PagesArrived, SendCall, CancelCall, SendReply, RefuseRequest,
                            membership::RecordChanged, membership::LoadChanged,
                            membership::HealthChanged, membership::PeerGone, membership::Notice>;
using Outbox = std::vector<Action>;

/// Running totals since start, for metrics.
struct Totals {
  std::uint64_t calls = 0;
  std::uint64_t calls_failed = 0;
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;
  std::uint64_t bytes_sent = 0;  ///< requests and replies
  std::uint64_t record_bytes_sent = 0;
  std::uint64_t beats_sent = 0;
  std::uint64_t beats_repeated = 0;  ///< received again
  std::uint64_t bad_signatures = 0;
  std::uint64_t bad_items = 0;
};

class Gossip {
 public:
  /// `wall_ms`: the wall clock at `now`, which becomes the incarnation.
  Gossip(Options options, const crypto::Signing& signing, Prng& prng, work::CallIds& ids,
         Instant now, std::uint64_t wall_ms);

  /// What this node says of itself; key, version and times are filled in here. Changed facts are
  /// announced at once, coalesced; equal ones are not.
  void set_facts(Instant now, wire::ProviderRecord facts);
  /// Goes out with the next beat; a change of `is_draining` makes one at once.
  void set_load(Instant now, const wire::Load& load);

  /// See Membership::set_wall. The incarnation stays.
  void set_wall(Instant now, std::uint64_t wall_ms) { members_.set_wall(now, wall_ms); }

  void on_request(Instant now, const work::PeerRequest& request, Outbox& out);
  /// False where the call is none of ours.
  bool on_reply(Instant now, PeerCallId id, const work::CallResult& result, Outbox& out);
  void on_tick(Instant now, Outbox& out);
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  /// Goodbye to every link. Nothing is sent after it but what is under way.
  void leave(Instant now, Outbox& out);
  /// After leave(): every link heard it, or its time is up.
  [[nodiscard]] bool has_left(Instant now) const;

  [[nodiscard]] const membership::Membership& membership() const { return members_; }

  [[nodiscard]] const Manifests& manifests() const { return manifests_; }

  /// Pages of that provider are wanted here, from now on and as they change.
  void want_pages(Instant now, const ProviderAddress& provider, const Manifests::Wish& wish);
  /// Own pages, served to whoever asks; gives the root for the record.
  Hash32 set_own_pages(std::vector<wire::Bytes> pages);

  [[nodiscard]] std::size_t links() const { return links_.size(); }

  [[nodiscard]] const ProviderAddress& self() const { return self_; }

  /// Of this node's own newest record; zeros before the first.
  [[nodiscard]] const wire::RecordDigest& record_digest() const { return own_digest_; }

  [[nodiscard]] const wire::Version& version() const { return version_; }

  [[nodiscard]] const Totals& totals() const { return totals_; }

 private:
  enum class CallKind : std::uint8_t {
    push,
    compare,
    pull,
    dial,
    ping,
    indirect,
    relayed,
    goodbye,
    pages
  };

  struct Call {
    CallKind kind = CallKind::push;
    std::optional<EndpointId> peer;  ///< absent: a bootstrap entry without a key
    Instant deadline;
    std::vector<ProviderAddress> items;       ///< of a push: again when it fails
    std::vector<wire::AddressPrefix> wanted;  ///< of a pull, in both kinds
    std::optional<PeerRequestId> relayed_for;
    std::optional<ProviderAddress> probed;
    std::optional<std::size_t> bootstrap;
    std::vector<Hash32> pages;
  };

  struct LinkState {
    bool is_eager = true;
    /// Value: in full; else only announced.
    std::map<ProviderAddress, bool> queue;  // ordered: iteration reaches the outbox
    std::optional<Instant> flush_at;
    bool is_calling = false;
    unsigned failures = 0;
  };

  /// A beat or record that others have and this node lacks.
  struct Wanted {
    std::vector<EndpointId> sources;
    Instant due;
    unsigned attempts = 0;
    bool is_asked = false;
    bool is_announced_only = false;
    std::uint64_t version = 0;
  };

  /// What one peer is asked for at once.
  struct Ask {
    std::vector<wire::AddressPrefix> beats;
    std::vector<wire::AddressPrefix> records;
  };

  void note_time(Instant now);

  // own.cpp
  void announce(Instant now, bool as_record, Outbox& out);
  void make_beat(Instant now, bool is_leaving);
  [[nodiscard]] wire::Bytes seal(std::string_view tag, std::vector<std::uint8_t> body) const;
  void on_own_beat(Instant now, const wire::Beat& beat, Outbox& out);
  const wire::Bytes& fresh_beat(Instant now);

  // intake.cpp: what messages bring
  struct Intake {
    std::size_t news = 0;
    std::size_t repeats = 0;
    std::size_t checked = 0;  ///< signatures
    bool is_bad = false;      ///< what follows was not looked at
  };

  Intake take_items(Instant now, const wire::GossipMessage& message, const EndpointId& from,
                    Outbox& out);
  void take_beat(Instant now, const wire::Bytes& bytes, const EndpointId& from, Intake& intake,
                 Outbox& out);
  void take_record(Instant now, const wire::Bytes& bytes, const EndpointId& from, Intake& intake,
                   Outbox& out);
  [[nodiscard]] bool check(std::string_view tag, const EndpointId& key, const wire::Sealed& sealed,
                           Intake& intake);
  void want(Instant now, const wire::AddressPrefix& prefix, std::uint64_t version,
            const EndpointId& from, bool announced_only);
  void take_membership(Instant now, membership::Outbox& actions, Outbox& out);
  void forget(const ProviderAddress& gone);
  void relay(Instant now, const ProviderAddress& address, const EndpointId* from);

  // answers.cpp: what others ask for
  void answer_wanted(const wire::GossipMessage& request, wire::GossipMessage& reply);
  void answer_pages(const std::vector<Hash32>& wanted, wire::GossipMessage& reply) const;
  void answer_digest(const std::vector<wire::DigestEntry>& theirs,
                     wire::GossipMessage& reply) const;
  void answer_link(Instant now, const EndpointId& from, wire::Link asked,
                   wire::GossipMessage& reply);
  bool relay_probe(Instant now, const work::PeerRequest& request, const ProviderAddress& probe,
                   Outbox& out);
  [[nodiscard]] std::vector<wire::DigestEntry> digest() const;
  [[nodiscard]] const wire::Bytes* sealed_beat(const ProviderAddress& address) const;

  /// Whoever has that prefix: this node, a peer, or one that is gone.
  struct Known {
    const ProviderAddress* address = nullptr;  ///< null: nobody has it
    const membership::Peer* peer = nullptr;
    std::uint64_t version = 0;          ///< newest known, told or not
    const wire::Bytes* beat = nullptr;  ///< newest that is told
  };

  [[nodiscard]] Known known_as(const wire::AddressPrefix& prefix) const;

  // links.cpp
  void maintain_links(Instant now, Outbox& out);
  void add_link(Instant now, const EndpointId& peer);
  void drop_link(Instant now, const EndpointId& peer, Duration backoff);
  void flush(Instant now, const EndpointId& peer, LinkState& link, Outbox& out);
  void enqueue(Instant now, LinkState& link, const ProviderAddress& address);
  void compare(Instant now, Outbox& out);
  void dial_bootstrap(Instant now, std::size_t entry, Outbox& out);
  std::optional<ProviderAddress> random_peer();

  // calls.cpp
  bool send(Instant now, Call call, work::PeerTarget target, const wire::GossipMessage& message,
            Outbox& out);
  bool send_to(Instant now, const EndpointId& peer, Call call, const wire::GossipMessage& message,
               Outbox& out);
  void on_answer(Instant now, const Call& call, const EndpointId& from, wire::GossipMessage message,
                 Outbox& out);
  bool join_bootstrap(std::size_t entry, const EndpointId& from);
  void settle_link(Instant now, const Call& call, const EndpointId& from,
                   const wire::GossipMessage& message);
  void take_pages(Instant now, const Call& call, const wire::GossipMessage& message, Outbox& out);
  void on_failure(Instant now, const Call& call, const Error& error, Outbox& out);
  void reply(PeerRequestId request, const wire::GossipMessage& message, Outbox& out);
  /// Once a peer.
  void notice_mismatch(const EndpointId& peer, std::string_view sentence, Outbox& out);
  void on_refused_bootstrap(Instant now, std::size_t entry, const Error& error, Outbox& out);
  void on_unreachable_bootstrap(std::size_t entry, const Error& error, Outbox& out);
  void expire_calls(Instant now, Outbox& out);
  [[nodiscard]] wire::GossipMessage introduction() const;
  void pull(Instant now, Outbox& out);
  void join_ask(Instant now, const wire::AddressPrefix& prefix, Wanted& wanted, Ask& ask);
  void send_ask(Instant now, const EndpointId& source, Ask ask, Outbox& out);
  void ask_again(const wire::AddressPrefix& prefix, Instant due);
  void ask_pages(const ProviderAddress& provider, Instant due);
  void fetch_pages(Instant now, Outbox& out);
  void fetch_pages_of(Instant now, const ProviderAddress& provider, Outbox& out);
  void probe(Instant now, const ProviderAddress& address, Outbox& out);
  void count_sent(const wire::GossipMessage& message, std::size_t bytes);
  [[nodiscard]] std::optional<work::PeerTarget> target_of(const EndpointId& peer) const;

  Options options_;
  const crypto::Signing& signing_;
  Prng& prng_;
  work::CallIds& ids_;
  ProviderAddress self_{};
  membership::Membership members_;
  Manifests manifests_;

  wire::ProviderRecord facts_;
  wire::Load load_;
  wire::Version version_;
  wire::Bytes own_record_;
  wire::Bytes own_beat_;
  wire::RecordDigest own_digest_{};
  Instant beat_made_;
  Instant record_made_;
  std::optional<Instant> announce_at_;
  bool record_is_due_ = false;
  bool has_facts_ = false;

  std::map<EndpointId, LinkState> links_;  // ordered: iteration reaches the outbox
  std::map<EndpointId, Instant> backoff_;  ///< not dialled for a link before then
  std::map<EndpointId, std::vector<std::string>>
      contacts_;                              ///< of who announces no address, or has not yet
  std::map<std::size_t, EndpointId> pinned_;  ///< bootstrap entry -> the key that answered there
  /// Bootstrap entry -> not dialled before; nothing: never again.
  std::map<std::size_t, std::optional<Instant>> refused_bootstrap_;
  std::set<std::size_t> unreachable_bootstrap_;  ///< entries that the log calls unreachable
  std::uint64_t own_beats_heard_ = 0;            ///< newer than any that this node made
  std::set<EndpointId> mismatched_;              ///< who speaks another version, said once
  std::map<ProviderAddress, Instant> pages_due_;
  std::map<PeerCallId, Call> calls_;  // in order of deadline too: one timeout for all
  std::map<wire::AddressPrefix, Wanted> wanted_;
  std::optional<Instant> wanted_at_;
  std::optional<Instant> pages_at_;
  std::optional<Instant> leaving_since_;
  Instant heartbeat_at_;
  Instant compare_at_;
  Instant maintain_at_;
  Instant last_event_;
  std::uint64_t comparisons_ = 0;
  std::size_t relayed_probes_ = 0;
  bool is_settled_ = false;  ///< the last comparison brought no new provider
  Totals totals_;
};

}  // namespace tenzro::gossip
