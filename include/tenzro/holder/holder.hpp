#pragma once
/// \file
/// Expert residency: which experts and gates this node holds, which of them are in memory, and who
/// uses them.
///
/// Every expert is on disk (its blob in the store) and, while it fits, in memory (uploaded to the
/// backend). Rules
///  - A load is atomic: blob checked and uploaded, then blob and row durable, then the new weights
///  replace the old. On any error before that the previous ones keep serving. Why: an operator
///  reloads a live expert.
///  - Memory is counted in bytes: what the backend holds of every resident expert, and for what is
///  on its way the blob and what it becomes. It stays within the budget: whoever comes takes the
///  place of experts that no lease pins, in the order of `Retention`, or waits. Nothing is ever
///  dropped from disk to make room. Why: residency is a cache, holding is not.
///  - A load that finds no room in memory ends on disk only. Loads of blobs that the store has are
///  read by the holder itself, `loads_running_max` at a time, and no second copy is written. Why:
///  the bytes of a hundred loads at once would not fit.
///  - A lease pins what it got until it lets go. Experts that are on disk are read side by side, in
///  order of request, while they fit beside what is pinned, each once however many leases want it;
///  a set larger than the budget so runs in turns.
///  - An expert that does not fit together with its blob is packed as it is read, slice by slice.
///  One that does not fit even so never comes in: whoever uses it runs over its blob, and what
///  counts is the scratch for the slices, until the last lease lets go. It stays on the disk tier.
///  The background does the same beside what is in memory, but brings no scratch.
///  - A job makes nothing larger than what is reserved for it. It says what else the expert needs:
///  it comes in by that, or ends on disk, or is refused where it could never be used here. Why:
///  narrow experts become many times their blobs.
///  - A blob is hashed at its first use in this life, and again where it is another file since.
///  - Bytes that a request brought are in memory before anybody asks. They are counted at once, and
///  never wait: where there is no room for what they become they end on disk, and where there is
///  none for themselves the load is refused, with the numbers.
///  - What fits passes what waits for more room than there is, `kPassesMax` times; then all behind
///  it wait, and loads wait for requests. Why: the rest is served meanwhile, and it comes in too.
///  But when `kReadsPassMax` reads of requests began while one load had no room, it is that load's
///  turn. Why: requests that read all the time would keep every load waiting for ever.
///  - Weights that are replaced or unloaded while leases use them count until the last lets go.
///  - Free memory is filled from disk in the background, most recently used first,
///  `background_reads_max` at a time. That evicts nothing.
///  - A blob that does not hash to its name is quarantined, all its holdings withdrawn, their
///  waiters told. The load that found it ends saying that the store's blob is lost. Never served.
///  - Gates are small and stay in memory: experts have what they leave of the budget. A load that
///  would have them take more than half of it is refused, with the numbers. After a
///  restart they are read back before anything else.
/// Bounds: `holdings_max` rows, `loads_max` loads in progress, `leases_max` leases: beyond them
/// `busy`. Cost: O(log n) a call, an eviction and a look for what else fits. Thread: the owner's
/// only. Pure.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/holder/action.hpp"
#include "tenzro/holder/entry.hpp"
#include "tenzro/holder/meter.hpp"
#include "tenzro/holder/retention.hpp"
#include "tenzro/holder/under_way.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::holder {

class Holder {
 public:
  Holder(const Options& options, work::JobIds& ids);

  /// Rows the store had at start. Gates are read back at once, experts count as held on disk.
  void on_index(const std::vector<work::HoldingRow>& rows, Outbox& out);

  /// Experts above a smaller budget give way at once, as far as no lease pins them.
  void set_memory_budget(std::uint64_t bytes, Outbox& out);

  /// Error: busy; no_space for bytes that are more than the budget.
  [[nodiscard]] Status load_expert(RequestId waiter, const ExpertKey& key, LoadSource source,
                                   Outbox& out);
  [[nodiscard]] Status load_gate(RequestId waiter, const LayerKey& key, LoadSource source,
                                 Outbox& out);
  void unload_expert(RequestId waiter, const ExpertKey& key, Outbox& out);
  void unload_gate(RequestId waiter, const LayerKey& key, Outbox& out);

  /// Asks for experts of one layer; each comes as ExpertReady or ExpertUnavailable, those in memory
  /// before this returns. Error: busy.
  [[nodiscard]] Status acquire(LeaseId lease, const LayerKey& layer,
                               const std::vector<ExpertIndex>& experts, Outbox& out);
  /// Lets go of one expert of the lease; unknown pairs are ignored.
  void release(LeaseId lease, ExpertIndex expert, Outbox& out);
  /// Lets go of all, asked for or got.
  void release_all(LeaseId lease, Outbox& out);

  void on_job_done(JobId id, const work::JobResult& result, Outbox& out);
  void on_store_done(JobId id, const work::StoreResult& result, Outbox& out);

  /// The loaded gate, or nothing.
  [[nodiscard]] std::shared_ptr<const work::Gate> gate(const LayerKey& key) const;
  /// What is known of a held expert, on either tier; or nothing.
  [[nodiscard]] const work::ExpertFacts* facts(const ExpertKey& key) const;

  struct ExpertView {
    ExpertKey key;
    const work::HoldingRow* row = nullptr;
    bool in_memory = false;
  };

  [[nodiscard]] std::optional<ExpertView> expert(const ExpertKey& key) const;
  /// Every held expert, in key order.
  [[nodiscard]] std::vector<ExpertView> experts() const;
  /// At most `max` of them, from the first key behind `after` on.
  [[nodiscard]] std::vector<ExpertView> experts_after(const std::optional<ExpertKey>& after,
                                                      std::size_t max) const;
  /// When the expert was last used, as a number that grows with every use of any; 0: not held.
  [[nodiscard]] std::uint64_t last_use(const ExpertKey& key) const;
  /// The row of a loaded gate, or null.
  [[nodiscard]] const work::HoldingRow* gate_row(const LayerKey& key) const;
  /// Every loaded gate's row, in key order.
  [[nodiscard]] std::vector<const work::HoldingRow*> gates() const;

  [[nodiscard]] const Counters& counters() const { return counters_; }

  /// True once every gate of the index has been read back (or has failed).
  [[nodiscard]] bool is_ready() const { return gates_wanted_.empty() && gate_reads_ == 0; }

  [[nodiscard]] std::uint64_t memory_budget_bytes() const { return options_.memory_budget_bytes; }

  /// Of the budget: gates, experts in memory, and what is on its way.
  [[nodiscard]] std::uint64_t bytes_in_use() const { return taken_bytes() + counters_.gate_bytes; }

 private:
  using Experts = std::map<ExpertKey, Entry>;

  // loads.cpp: from a blob to a durable holding, and back
  Status begin_load(Load load, Outbox& out);
  void read_for_load(Load load, Outbox& out);
  /// Of bytes that came with the request.
  Status begin_sent_load(Load load, Outbox& out);
  [[nodiscard]] bool reserve_for_sent(Load& load, Outbox& out);
  /// Reserves what a waiting load takes; false: it waits on.
  [[nodiscard]] bool reserve_passage(Load& load, Outbox& out);
  void admit_load(Load load, Outbox& out);
  void on_load_read(Load load, const work::StoreResult& result, Outbox& out);
  void pump_loads(Outbox& out);
  void on_load_admitted(Load load, const work::JobResult& result, Outbox& out);
  void on_load_saved(Load load, const work::StoreResult& result, Outbox& out);
  void finish_load(Load& load, Status status, Outbox& out);
  void fail_load(Load& load, const Error& error, Outbox& out);
  [[nodiscard]] bool begin_waiting_load(std::size_t at, Outbox& out);
  void reserve_for(Load& load, std::uint64_t bytes);
  bool take_expert(Load& load, const work::AdmittedExpert& expert, Outbox& out);
  bool begin_again(Load& load, Outbox& out);
  std::uint64_t held_bytes_max(Load& load, Outbox& out);
  void commit_expert(Load& load, bool is_checked, Outbox& out);
  [[nodiscard]] Status check_gate_room(const LayerKey& layer, std::uint64_t bytes) const;
  void commit_gate(Load& load, Outbox& out);
  void on_removed(const Removal& removal, const work::StoreResult& result, Outbox& out);
  void withdraw_expert(Experts::iterator it, const Error& error, Outbox& out);
  void withdraw_gate(std::map<LayerKey, GateEntry>::iterator it, Outbox& out);
  // reads.cpp: from disk to memory
  void begin_read(Read read, Outbox& out);
  void on_blob_read(Read read, const work::StoreResult& result, Outbox& out);
  void on_read_admitted(const Read& read, const work::JobResult& result, Outbox& out);
  void end_read(const Read& read);
  void read_again(const ExpertKey& key, const work::AdmittedExpert& expert, Outbox& out);
  void fail_read(const Read& read, const Error& error, Outbox& out);
  void on_quarantined(const BlobHash& hash, const work::StoreResult& result, Outbox& out);
  void pump(Outbox& out);
  void pump_gates(Outbox& out);
  void pump_wanted(Outbox& out);
  void pump_background(Outbox& out);
  [[nodiscard]] bool begin_wanted(Experts::iterator it, Outbox& out);
  void admit_read(Read read, const work::StoreResult& result, Outbox& out);
  void quarantine(const BlobHash& hash, Outbox& out);
  [[nodiscard]] bool can_read_ahead() const;
  [[nodiscard]] bool is_turn_of_loads() const;

  // memory.cpp: what is resident, and who pins it
  /// What gates leave to experts; never nothing, so that what does not fit is told so by its job.
  [[nodiscard]] std::uint64_t budget_bytes() const {
    return std::max(options_.memory_budget_bytes, counters_.gate_bytes + 1) - counters_.gate_bytes;
  }

  void add_gate_bytes(std::uint64_t bytes, Outbox& out);
  void take_gate_bytes(std::uint64_t bytes);

  /// False, with nothing changed, where what is pinned or on its way does not leave the room.
  bool make_room(std::uint64_t bytes, Outbox& out);

  [[nodiscard]] std::uint64_t taken_bytes() const {
    return counters_.memory_bytes + reserved_bytes_;
  }

  /// What bringing in so many bytes takes: of what is known to become of a blob, or of the blob.
  [[nodiscard]] Passage passage_of(std::uint64_t bytes) const;
  /// The same of `room`, to be held there; nothing where they do not fit.
  [[nodiscard]] std::optional<Passage> passage_within(std::uint64_t room,
                                                      std::uint64_t bytes) const;

  [[nodiscard]] Passage passage_of(const Entry& entry) const {
    return passage_of(entry.row.facts.resident_bytes);
  }

  [[nodiscard]] bool is_servable(const work::AdmittedExpert& expert) const;
  [[nodiscard]] Error too_large(const work::AdmittedExpert& expert) const;
  /// Scratch for the slices of an expert that is not held.
  [[nodiscard]] std::uint64_t stream_bytes() const;

  [[nodiscard]] static std::uint64_t pinned_bytes(const Entry& entry) {
    const bool is_pinned = entry.resident != nullptr && !entry.leases.empty();
    return is_pinned ? entry.held_bytes : 0;
  }

  [[nodiscard]] static bool is_in_memory(const Entry& entry) {
    return entry.resident != nullptr && !entry.resident->is_streamed();
  }

  [[nodiscard]] static bool has_waiters(const Entry& entry);

  /// Evicts what no lease pins until the budget is kept, or nothing is left to evict.
  void shed(Outbox& out);
  void evict(const ExpertKey& key, Entry& entry, Outbox& out);
  void drop_memory(Entry& entry);
  /// Before the weights are dropped although leases use them: they count until the last of these
  /// lets go.
  void keep_former(const ExpertKey& key, Entry& entry);
  void let_go_former(const ExpertKey& key, LeaseId lease);
  [[nodiscard]] bool holds_former(const ExpertKey& key, LeaseId lease) const;
  void take_memory(Entry& entry, std::shared_ptr<const compute::ResidentExpert> resident);
  /// The last lease of a streamed expert let go.
  void end_stream(const ExpertKey& key, Entry& entry, Outbox& out);
  void use(Entry& entry);
  void offer(const ExpertKey& key, Entry& entry, Outbox& out);
  void let_go(Experts::iterator it, LeaseId lease, Outbox& out);
  void refuse_waiters(const ExpertKey& key, Entry& entry, const Error& error, Outbox& out);
  Experts::iterator add_entry(const ExpertKey& key, work::HoldingRow row);
  void erase_entry(Experts::iterator it);
  /// Whether the background should bring it back: on disk, and nobody is at it.
  void note_idle(Entry& entry);

  /// What fits passes a head of its queue that does not, so many times; then all wait for it.
  static constexpr std::size_t kPassesMax = 16;
  /// Reads of requests that pass the head of `loads_waiting_`.
  static constexpr std::size_t kReadsPassMax = 64;
  /// Of those behind it so many are looked at.
  static constexpr std::size_t kPassLookMax = 16;

  Options options_;
  work::JobIds& ids_;
  Experts experts_;                       // ordered: iteration reaches the outbox
  std::vector<Experts::iterator> items_;  ///< by ItemId; those of free numbers are stale
  std::vector<ItemId> free_items_;
  Retention retention_;
  /// Experts on disk that the background may bring back, most recently used last.
  std::set<std::pair<std::uint64_t, ItemId>> idle_;
  std::map<LayerKey, GateEntry> gates_;
  std::map<LeaseId, std::vector<ExpertKey>> leases_;
  /// Experts wanted by a lease and not in memory, in order of request.
  std::deque<ExpertKey> wanted_;
  /// Gates of the index still to be read.
  std::deque<LayerKey> gates_wanted_;
  std::deque<Load> loads_waiting_;  ///< for their turn to be read
  std::size_t wanted_passes_ = 0;   ///< reads and loads begun since the head of `wanted_` waits
  std::size_t loads_passes_ = 0;    ///< loads begun since the head of `loads_waiting_` waits
  std::size_t reads_passes_ = 0;    ///< reads of requests begun since it waits for room
  std::multimap<ExpertKey, Former> formers_;
  std::map<JobId, Load> loads_reading_;
  std::map<JobId, Load> admitting_;
  std::map<JobId, Load> saving_;
  std::map<JobId, Read> reading_;
  std::map<JobId, Read> readmitting_;
  std::map<JobId, Removal> removing_;
  std::map<JobId, BlobHash> quarantining_;
  Counters counters_;
  std::uint64_t reserved_bytes_ = 0;  ///< of reads and loads under way
  std::uint64_t pinned_bytes_ = 0;    ///< of memory_bytes: of experts with leases, and formers_
  std::size_t loads_running_ = 0;
  std::size_t background_reads_ = 0;
  std::size_t gate_reads_ = 0;
  std::uint64_t clock_ = 0;
  /// The background has looked at every expert on disk and none fits: it need not look again for
  /// now.
  bool is_settled_ = false;
};

}  // namespace tenzro::holder
