#pragma once
/// \file
/// Who is in the mesh: one entry a provider, with its newest beat, its record, and its health.
///
/// Signatures were checked by the caller. Rules
///  - An address is SHA-256 of the key that signed. Of two beats of a provider the larger version
///    (incarnation, then sequence) counts; an equal or older one is a replay and changes nothing.
///  - A record counts where the newest beat names its digest, so an old record cannot come back. A
///    provider shows once its first record is here.
///    Of one provider a record a second is taken, and a few more at once. Why: whoever signs may
///    make records faster than others can read them.
///  - A beat says that the provider lived when it was made, not when it arrived: its age is what
///    its wall clock lags behind the smallest lag seen of that life. Why: news that travelled long
///    must not prolong a life. Heard from the provider itself it is new whatever its clock says.
///  - Silence makes suspect half a heartbeat before its ttl ends, down a heartbeat after; both on
///    this node's monotonic clock. A beat newer than the last makes alive again.
///  - Goodbye and down leave a tombstone with the version: only a newer beat of its own, made less
///    than a ttl ago, brings the provider back. Third parties have nothing else to revive it with.
///    A goodbye of somebody who was never here is no news. Why: whoever makes keys at will would
///    push out the tombstones that count.
///  - A beat from further ahead than `skew_max` is refused, and from further behind than that and
///    a ttl; both are counted, and said once a provider.
///  - Where more than half of the peers fell silent together, this node suspects itself: downs wait
///    for most of another heartbeat (still within ttl + 2 heartbeats), and `suspects_itself` tells
///    those who would punish. After a pause of this process all silences start anew.
/// Bounds: `peers_max` peers and as many tombstones; new peers beyond are refused, of tombstones
/// the one that ends first goes. Cost: O(log n) an event. Thread: the owner's only. Pure.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/membership/address_index.hpp"
#include "tenzro/wire/beat.hpp"
#include "tenzro/wire/gossip_message.hpp"
#include "tenzro/wire/provider_record.hpp"

namespace tenzro::membership {

enum class Health : std::uint8_t { alive, suspect };

using SharedBytes = std::shared_ptr<const wire::Bytes>;
/// When whose silence next matters.
using Deadlines = std::set<std::pair<Instant, ProviderAddress>>;

struct Options {
  Duration heartbeat = std::chrono::seconds(10);
  Duration skew_max = std::chrono::seconds(60);
  Duration tombstone_for = std::chrono::minutes(10);
  std::size_t peers_max = 10'000;
  /// Endpoint ids; an empty allow list allows everyone who is not denied.
  std::set<EndpointId> allow;
  std::set<EndpointId> deny;
};

struct Peer {
  EndpointId key{};
  wire::Beat beat;  ///< newest
  /// Newest beat whose record is here, and that record, as they came; null before the first.
  SharedBytes sealed_beat;
  SharedBytes sealed_record;
  wire::Version complete;
  wire::RecordDigest digest{};  ///< of sealed_record
  /// The record without its holdings; those stay in the bytes.
  std::shared_ptr<const wire::ProviderRecord> facts;
  Health health = Health::alive;
  Instant heard;                              ///< when its newest beat was made
  Instant deadline;                           ///< when silence next matters
  std::optional<Deadlines::iterator> queued;  ///< the deadline's place in their order
  SharedBytes pending_beat;
  Instant records_paid;  ///< see Membership::admit_record
  /// This node's wall clock minus the peer's, at least; includes the way.
  std::int64_t lag_ms = 0;

  [[nodiscard]] bool needs_record() const { return pending_beat != nullptr; }
};

/// Of a provider that said goodbye or fell silent.
struct Tombstone {
  EndpointId key{};
  wire::Version version;
  std::int64_t lag_ms = 0;
  Instant until;
  SharedBytes goodbye;  ///< null: it fell silent
  std::vector<std::string> addresses;
};

/// First record, or another one; `previous` is the sealed one before, or null.
struct RecordChanged {
  ProviderAddress address{};
  std::shared_ptr<const wire::ProviderRecord> record;
  SharedBytes previous;
};

struct LoadChanged {
  ProviderAddress address{};
};

struct HealthChanged {
  ProviderAddress address{};
  Health health = Health::alive;
};

struct PeerGone {
  ProviderAddress address{};
  bool said_goodbye = false;
};

struct Notice {
  std::string text;
};

using Action = std::variant<RecordChanged, LoadChanged, HealthChanged, PeerGone, Notice>;
using Outbox = std::vector<Action>;

/// What became of a beat.
enum class Verdict : std::uint8_t {
  applied,
  applied_needs_record,
  known,  ///< the newest already, or older: nothing changed
  denied,
  from_future,
  too_old,
  full,
};

/// Running totals since start, for metrics.
struct Totals {
  std::uint64_t beats = 0;
  std::uint64_t records = 0;
  std::uint64_t replays = 0;
  std::uint64_t denied = 0;
  std::uint64_t from_future = 0;
  std::uint64_t too_old = 0;
  std::uint64_t full = 0;
  std::uint64_t records_unwanted = 0;
  std::uint64_t suspected = 0;
  std::uint64_t downs = 0;
  std::uint64_t goodbyes = 0;
};

class Membership {
 public:
  /// `wall_ms` is the wall clock at `now`; from then on it is `now` that moves it.
  Membership(const Options& options, Instant now, std::uint64_t wall_ms)
      : options_(options), wall_origin_(now), wall_origin_ms_(wall_ms) {}

  /// Its entries know their places in its tables.
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  /// The wall clock at `now`, read again: it was set, or ran while this node's clock stood still.
  void set_wall(Instant now, std::uint64_t wall_ms);

  /// Whether that beat would change anything: asked before its signature is checked.
  [[nodiscard]] bool is_news(const ProviderAddress& address, const wire::Beat& beat) const;
  [[nodiscard]] bool is_admitted(const EndpointId& key) const;

  enum class Heard : std::uint8_t { directly, by_others };
  /// A beat with a good signature.
  Verdict on_beat(Instant now, const wire::Beat& beat, wire::Bytes sealed, Heard heard,
                  Outbox& out);
  /// Whether this record is the one that the provider's newest beat names.
  [[nodiscard]] bool wants_record(const ProviderAddress& address,
                                  const wire::RecordDigest& digest) const;
  /// Whether a record of that digest is worth decoding: some provider's newest beat names it, and
  /// that provider did not use up its records. A true answer counts as one of them.
  [[nodiscard]] bool admit_record(Instant now, const wire::RecordDigest& digest);
  /// When the next record of that provider is admitted; in the past: at once.
  [[nodiscard]] Instant record_opens(const ProviderAddress& address) const;
  /// A wanted record with a good signature. False where the beat contradicts it.
  bool on_record(Instant now, wire::ProviderRecord record, wire::Bytes sealed,
                 const wire::RecordDigest& digest, Outbox& out);
  /// This process did not run for that long, until `now`.
  void on_pause(Instant now, Duration gap);
  void on_tick(Instant now, Outbox& out);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] const Peer* find(const ProviderAddress& address) const;
  /// The first peer whose address starts so; null where none does.
  [[nodiscard]] const std::pair<const ProviderAddress, Peer>* find(
      const wire::AddressPrefix& prefix) const;

  [[nodiscard]] const std::map<ProviderAddress, Peer>& peers() const { return peers_; }

  [[nodiscard]] const std::map<ProviderAddress, Tombstone>& tombstones() const {
    return tombstones_;
  }

  [[nodiscard]] std::uint64_t wall_ms(Instant now) const;

  [[nodiscard]] bool suspects_itself(Instant now) const { return now < self_suspect_until_; }

  [[nodiscard]] const Totals& totals() const { return totals_; }

 private:
  struct Age {
    Duration age{0};
    std::int64_t lag_ms = 0;
  };

  using Peers = std::map<ProviderAddress, Peer>;

  /// Of two beats of a provider that is here, or was.
  [[nodiscard]] static bool is_newer(const wire::Beat& beat, const Peer* peer,
                                     const Tombstone* tombstone);
  Verdict refuse(Verdict verdict, const wire::Beat& beat, std::int64_t lag_ms, Outbox& out);
  [[nodiscard]] Age age_of(std::int64_t lag_ms, const wire::Beat& beat, Heard heard,
                           const Peer* peer, const Tombstone* tombstone) const;
  void apply(Instant now, const ProviderAddress& address, Peer& peer, const wire::Beat& beat,
             Outbox& out);
  Peers::iterator add_peer(const ProviderAddress& address, const EndpointId& key);
  void bury(Instant now, Peers::iterator peer, SharedBytes goodbye, Outbox& out);
  void end_tombstones(Instant now);
  void set_pending(const ProviderAddress& address, Peer& peer, const wire::RecordDigest& digest,
                   SharedBytes beat);
  void set_deadline(const ProviderAddress& address, Peer& peer, Instant deadline);
  void on_silence(Instant now, Peers::iterator silent, Outbox& out);
  [[nodiscard]] Duration ttl_of(const Peer& peer) const;

  Options options_;
  Instant wall_origin_;
  std::uint64_t wall_origin_ms_ = 0;
  Peers peers_;
  AddressIndex<Peers::iterator> index_;  ///< of peers_
  std::map<ProviderAddress, Tombstone> tombstones_;
  Instant tombstones_end_;  ///< none ends before
  Deadlines deadlines_;
  /// What the newest beats name and this node lacks.
  std::set<std::pair<wire::RecordDigest, ProviderAddress>> pending_;
  std::set<ProviderAddress> noticed_;  ///< whose clock an operator was told about
  std::size_t suspects_ = 0;
  Instant self_suspect_until_;
  Totals totals_;
};

}  // namespace tenzro::membership
