#pragma once
/// \file
/// Repair: which missing copies of experts this node fetches, and which surplus ones it drops.
///
/// Nobody commands anybody: every node looks at its own view in passes, names for each missing copy
/// the candidate that the rendezvous hash gives (placement.hpp), and acts on the rows that name
/// itself. Rules
///  - A pass comes every `interval`, the first one `grace` after the start. It looks at the models
///  this node holds experts of or opted in to, a slice of experts a tick, then starts fetching.
///  While this node doubts its own view nothing is judged.
///  - What is missing: copies.hpp. Providers that went count for `grace` more: absent.hpp.
///  - Candidates: providers with an expert of the model, or opted in to it, that tell of free room
///  for one, are not leaving, and do not hold this expert.
///  - One of them that was named for a row in two passes and in all that time admitted nothing at
///  all is passed over for `kPassedOverFor` passes, and the next in rank is named; that holds for
///  this node too. One with a backlog admits something and keeps its rows, so that no two nodes
///  fetch for one.
///  - Bytes that this node could not use although they are here (no_space: it has no room for what
///  they become; runtime: they are no expert) are not fetched again for `kUnusableFor` passes, and
///  it does not name itself for them.
///  Why: they would be downloaded again and again. Other bytes of that expert are another matter.
///  - Order: fewest staying holders first, then the highest rate, then by key; so what would be
///  lost with one more node comes first, and hot experts after all that are below the floor.
///  - At most `max_admissions` experts a pass; or, where `bytes_per_s` is set, as many as its bytes
///  allow, a few at once. Nothing is started while the node is busy, or without room: room comes
///  from this node's own budgets and is reserved before a fetch begins. What peers say can name
///  what to fetch and from whom, and nothing else.
///  - A fetch that is no longer wanted is cancelled, and `wants` is asked again before an expert is
///  admitted. Why: where views differ two may fetch for one row; the second then stops.
///  - While some expert is held by leaving nodes alone passes come eight times as often; never more
///  often than that, whatever is heard.
///  - Above `max_replication` copies whose holders are alive the last in rank is dropped; each node
///  drops only its own, and only if the surplus stood for two passes. Of those that it may drop in
///  a pass those go first that it has not used for longest: who drops what is the rank's matter
///  alone, so nobody need know how warm a copy is elsewhere. The caller proves, before it lets go
///  of its copy, that the others have theirs. One that is still here although it was to be dropped
///  could not be proven: for `kPassedOverFor` passes others go instead, lest the same few that
///  never can be proven keep the rest from going. Nothing is dropped where `drops_surplus` is
///  false. Why: whoever declares a copy and passes the proof's question on to one that has it looks
///  like a holder.
/// Bounds: `kRowsMax` rows wait, `kTrackedMax` are remembered between passes (of others no
/// candidate is passed over), and as many drops and unusable fetches (what is beyond may be tried
/// again at once). Cost:
/// a slice some hundred microseconds: `slots_per_slice` experts or `kScoresPerSlice` hashes, and
/// one expert more. Thread: the owner's only. Pure.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/repair/absent.hpp"
#include "tenzro/repair/copies.hpp"
#include "tenzro/repair/placement.hpp"
#include "tenzro/shards/view.hpp"

namespace tenzro::repair {

struct Options {
  ProviderAddress self{};
  Duration interval = std::chrono::seconds(120);
  Duration grace = std::chrono::seconds(600);
  /// 0: this node fetches nothing, unless `bytes_per_s` is set.
  std::uint32_t max_admissions = 2;
  /// 0: counted in experts.
  std::uint64_t bytes_per_s = 0;
  std::size_t fetches_max = 4;  ///< at once
  Policy policy;
  /// False: what is surplus is found and kept.
  bool drops_surplus = true;
  /// "*": every model.
  std::set<ModelId> models;
  std::size_t slots_per_slice = 256;
};

/// What the node can take now.
struct Room {
  std::uint64_t free_bytes = 0;
  bool is_busy = false;
  /// This node may be the one that is cut off.
  bool doubts_view = false;
  /// When this node last used an expert, as a growing number; empty: of no use.
  std::function<std::uint64_t(const ExpertKey&)> last_use = {};
};

/// Fetch, verify and admit; answer with on_fetched.
struct FetchExpert {
  ExpertKey key;
  BlobHash blob{};
  std::uint64_t bytes_max = 0;  ///< a larger blob is refused
};

struct CancelFetch {
  ExpertKey key;
};

/// Prove that `others` have the blob, then drop this node's copy.
struct DropExpert {
  ExpertKey key;
  BlobHash blob{};
  std::vector<ProviderAddress> others;
};

using Action = std::variant<FetchExpert, CancelFetch, DropExpert>;
using Outbox = std::vector<Action>;

struct Totals {
  std::uint64_t passes = 0;
  std::uint64_t fetches = 0;
  std::uint64_t fetches_failed = 0;
  std::uint64_t fetches_cancelled = 0;
  std::uint64_t admitted = 0;
  std::uint64_t admitted_bytes = 0;
  std::uint64_t passed_over = 0;  ///< candidates, for a row
  std::uint64_t drops = 0;
};

/// Of the last whole pass.
struct Findings {
  std::uint64_t under_replicated = 0;
  std::uint64_t one_holder = 0;  ///< of those: at most one that stays
  std::uint64_t named_here = 0;
  std::uint64_t surplus = 0;
  std::uint64_t disputed = 0;  ///< missing, and open which bytes they are: not fetched
};

class Repair {
 public:
  static constexpr std::size_t kRowsMax = 65'536;
  static constexpr std::size_t kTrackedMax = 65'536;
  static constexpr std::size_t kLeaversMax = 1024;  ///< remembered; more bring no pass
  static constexpr std::size_t kRowsPerTick = 64;
  static constexpr std::size_t kScoresPerSlice = 4096;
  static constexpr std::uint64_t kPatience = 2;  ///< passes
  static constexpr std::uint64_t kPassedOverFor = 8;
  static constexpr std::uint64_t kUnusableFor = 256;

  explicit Repair(const Options& options) : options_(options), absent_(options.grace) {}

  void start(Instant now);
  /// A provider left the view with what it had declared.
  void on_gone(Instant now, const ProviderAddress& address, shards::View::Held held);
  /// A provider began to leave. Once an interval of each: whoever says it again and again gets no
  /// more passes by it.
  void on_leaving(Instant now, const ProviderAddress& address);
  /// A FetchExpert is over: what the expert takes, or why it is not here. Ignores what was
  /// cancelled.
  void on_fetched(Instant now, const ExpertKey& key, const Result<std::uint64_t>& bytes);
  void on_tick(Instant now, const shards::View& view, const Room& room, Outbox& out);
  /// Cancels all, and begins nothing more: this node is leaving.
  void stop(Outbox& out);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  /// Whether one more copy of it here is wanted, as the view stands.
  [[nodiscard]] bool wants(const shards::View& view, const ExpertKey& key) const;
  /// Whether this node holds experts of the model or opted in to it.
  [[nodiscard]] bool cares_for(const shards::View& view, const ModelId& model) const;

  [[nodiscard]] std::size_t in_flight() const { return fetching_.size(); }

  [[nodiscard]] std::size_t fetches_max() const { return options_.fetches_max; }

  [[nodiscard]] std::size_t absent() const { return absent_.size(); }

  /// For how long a provider that went may come back.
  [[nodiscard]] Duration grace() const { return options_.grace; }

  [[nodiscard]] const Totals& totals() const { return totals_; }

  [[nodiscard]] const Findings& findings() const { return findings_; }

 private:
  struct Row {
    ExpertKey key;
    std::size_t staying = 0;
    std::uint32_t rate = 0;
  };

  /// What is remembered of a missing expert from pass to pass.
  struct Track {
    std::map<ProviderAddress, std::uint64_t> named;        ///< since which pass
    std::map<ProviderAddress, std::uint64_t> passed_over;  ///< until which pass
    std::uint64_t seen = 0;
    std::optional<BlobHash> blob;  ///< the first that was clear
  };

  struct Growth {
    std::size_t holdings = 0;
    std::uint64_t pass = 0;  ///< when it last had more than before
    std::uint64_t seen = 0;
    Instant known_since;
  };

  /// A model while the pass goes through it.
  struct Scan {
    ModelId model;
    std::optional<shards::View::Slot> after;
    std::vector<Contender> candidates;
    bool is_candidate = false;  ///< this node
  };

  struct Fetch {
    BlobHash blob{};
    std::uint64_t expected_bytes = 0;
    std::uint64_t reserved_bytes = 0;
  };

  struct Unusable {
    BlobHash blob{};
    std::uint64_t until = 0;  ///< from that pass on again
  };

  // pass.cpp
  void begin_pass(Instant now, const shards::View& view);
  void begin_model(const shards::View& view);
  void slice(Instant now, const shards::View& view, const Room& room, Outbox& out);
  void examine(shards::View::Slot slot, const std::vector<shards::Candidate>& holders,
               const std::vector<Absent::Holder>& absent);
  void examine_missing(shards::View::Slot slot, const std::vector<shards::Candidate>& holders,
                       std::size_t missing, const Copies& copies);
  void examine_surplus(const ExpertKey& key, const std::vector<shards::Candidate>& holders);
  void drop_coldest(const Room& room, Outbox& out);
  [[nodiscard]] bool names_self(const std::vector<ProviderAddress>& ranked, std::size_t missing,
                                Track* track);
  /// Since which pass the candidate is named for that row; nothing where it is passed over.
  [[nodiscard]] std::optional<std::uint64_t> named_since(Track& track,
                                                         const ProviderAddress& address);
  void end_pass(Instant now, const shards::View& view, const Room& room, Outbox& out);
  void note_growth(const shards::View& view);

  // repair.cpp
  [[nodiscard]] bool may_start(Instant now) const;
  void start_fetches(Instant now, const shards::View& view, const Room& room, Outbox& out);
  /// False: no room for it now.
  bool start_fetch(Instant now, const shards::View& view, const ExpertKey& key, const Room& room,
                   Outbox& out);
  [[nodiscard]] Need need(const shards::View& view, const std::vector<shards::Candidate>& holders,
                          const ExpertKey& key) const;
  /// Whether it was not found to be of no use here.
  [[nodiscard]] bool is_usable(const ExpertKey& key, const BlobHash& blob) const;
  [[nodiscard]] std::optional<BlobHash> known_blob(const ExpertKey& key) const;
  [[nodiscard]] Duration time_of(std::uint64_t bytes) const;

  Options options_;
  Absent absent_;
  Instant first_pass_;
  std::optional<Instant> next_pass_;  ///< absent: not started, or stopped
  std::optional<Instant> work_due_;   ///< a slice, or a fetch that may start now
  std::uint64_t pass_ = 0;
  Instant pass_began_;
  std::map<ProviderAddress, Instant> leavers_;  ///< when it was heard of
  std::deque<ModelId> models_;  ///< that the pass has not finished; the first is in `scan_`
  std::optional<Scan> scan_;
  bool is_urgent_ = false;
  Findings found_;  ///< of the pass under way
  std::vector<Row> rows_;
  std::deque<Row> queue_;
  std::uint32_t admitted_ = 0;  ///< since the last pass
  std::uint32_t started_ = 0;
  Instant rate_open_;                    ///< when the byte rate lets the next fetch begin
  std::map<ExpertKey, Fetch> fetching_;  // ordered: iteration reaches the outbox
  std::uint64_t reserved_bytes_ = 0;
  std::map<ModelId, std::map<shards::View::Slot, Track>> tracks_;
  std::size_t tracked_ = 0;
  std::map<ProviderAddress, Growth> growth_;
  std::map<ExpertKey, std::uint64_t> surplus_;  ///< in which pass this node's copy was too many
  std::map<ExpertKey, std::uint64_t> tried_;    ///< drops, and from which pass on again
  std::map<ExpertKey, Unusable> unusable_;      ///< fetches that this node has no room for
  std::vector<DropExpert> drops_;               ///< that this pass may make
  std::size_t scores_ = 0;                      ///< hashes made in this slice
  Totals totals_;
  Findings findings_;
};

/// What an expert of the model takes: this node's own word where it holds one, else the middle of
/// what its holders claim (of two the higher), so that one that lies changes little; 0 where nobody
/// tells.
[[nodiscard]] std::uint64_t expert_bytes(const shards::View& view, const ModelId& model,
                                         const ProviderAddress& self);
/// Whether that provider could be named for a copy of that model's experts.
[[nodiscard]] bool is_candidate(const shards::View& view, const shards::Provider& provider,
                                const ModelId& model, std::uint64_t expert_bytes);

}  // namespace tenzro::repair
