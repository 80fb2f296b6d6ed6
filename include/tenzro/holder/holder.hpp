#pragma once
/// \file
/// Expert residency: which experts and gates this node holds, which of them are in memory, and who
/// uses them.
///
/// Every expert is on disk (its blob in the store) and, while it fits, in memory (uploaded to the
/// backend). Rules
///  - A load is atomic: blob checked and uploaded, then blob and row durable, then the new weights
///  replace the old. On
///    any error before that the previous ones keep serving. Why: an operator reloads a live expert.
///  - Memory is counted in the backend's own bytes. Above the budget the least recently used expert
///  that no lease pins
///    loses its memory form; nothing is ever dropped from disk to make room. Why: residency is a
///    cache, holding is not.
///  - A load takes its share of the budget from the request on: its blob's bytes, then what it
///  holds in the backend. Why: many loads at once would fill the memory before the first is
///  counted.
///  - A lease pins what it got until it lets go. Experts that are on disk are read and uploaded in
///  order of request while
///    they fit beside what is pinned; a set larger than the budget so runs in turns. One expert
///    larger than the whole budget is admitted when nothing else is pinned, and counted.
///  - Free memory is filled from disk in the background, most recently used first,
///  `background_reads_max` at a time.
///  - A blob that does not hash to its name is quarantined, its holding withdrawn, its waiters
///  told. Never served.
///  - Gates are small and stay in memory; after a restart they are read back before anything else.
/// Bounds: `holdings_max` rows, `loads_max` loads in progress, `leases_max` leases: beyond them
/// `busy`. Cost: O(log n) a call; O(n) an eviction, and a look for what else fits after memory was
/// freed. Thread: the owner's only. Pure.
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/holder/meter.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::holder {

enum class LeaseId : std::uint64_t {};

struct Options {
  std::uint64_t memory_budget_bytes = 4ULL << 30U;
  std::size_t holdings_max = 1'000'000;
  std::size_t loads_max = 64;
  std::size_t leases_max = 4096;
  std::size_t background_reads_max = 1;
  std::size_t gate_reads_max = 4;
  /// Hash a blob at every read from disk; else at the first one of this life.
  bool verifies_every_read = false;
};

/// What happens to a holding, as the rest of the node sees it.
enum class Change : std::uint8_t { held_in_memory, held_on_disk, withdrawn };

struct ExpertChanged {
  ExpertKey key;
  Change change = Change::withdrawn;
  std::optional<std::string> source_uri;
};

struct GateChanged {
  LayerKey key;
  Change change = Change::withdrawn;
};

/// A load that `waiter` asked for is over. The row is what status shows.
struct ExpertLoaded {
  RequestId waiter{};
  ExpertKey key;
  Status status;
};

struct GateLoaded {
  RequestId waiter{};
  LayerKey key;
  Status status;
};

struct Unloaded {
  RequestId waiter{};
  LayerKey layer;
  std::optional<ExpertIndex> expert;
  Result<bool> removed;
};

/// One expert of a lease is in memory, and stays there until the lease lets go of it; or it cannot
/// be had.
struct ExpertReady {
  LeaseId lease{};
  ExpertIndex expert = 0;
  std::shared_ptr<const compute::ResidentExpert> resident;
  work::ExpertIdentity identity;
};

struct ExpertUnavailable {
  LeaseId lease{};
  ExpertIndex expert = 0;
  Error error;
};

/// An operator should know: a damaged blob was found.
struct BlobDamaged {
  BlobHash hash{};
  std::string what;
};

using work::Run;
using work::Store;

using Action = std::variant<Run, Store, ExpertChanged, GateChanged, ExpertLoaded, GateLoaded,
                            Unloaded, ExpertReady, ExpertUnavailable, BlobDamaged>;
using Outbox = std::vector<Action>;

struct Counters {
  std::uint64_t memory_bytes = 0;
  std::uint64_t gate_bytes = 0;
  std::uint64_t memory_experts = 0;
  std::uint64_t disk_experts = 0;
  std::uint64_t evicted_to_disk = 0;
  std::uint64_t admissions_over_budget = 0;
};

/// The bytes of a load and where they came from.
struct LoadSource {
  BufferRef blob;
  std::optional<std::string> uri;
  std::optional<BlobHash> uri_hash;
  /// True: the caller sent the bytes; a `uri` beside them is declared only if they hash to it.
  /// False: they were read by that URI and must hash to it.
  bool is_inline = true;
};

class Holder {
 public:
  Holder(const Options& options, work::JobIds& ids);

  /// Rows the store had at start. Gates are read back at once, experts count as held on disk.
  void on_index(const std::vector<work::HoldingRow>& rows, Outbox& out);

  /// Error: busy.
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
  /// The row of a loaded gate, or null.
  [[nodiscard]] const work::HoldingRow* gate_row(const LayerKey& key) const;
  /// Every loaded gate's row, in key order.
  [[nodiscard]] std::vector<const work::HoldingRow*> gates() const;

  [[nodiscard]] const Counters& counters() const { return counters_; }

  /// True once every gate of the index has been read back (or has failed).
  [[nodiscard]] bool is_ready() const { return gates_wanted_.empty() && gate_reads_ == 0; }

  [[nodiscard]] std::uint64_t memory_budget_bytes() const { return options_.memory_budget_bytes; }

 private:
  struct Entry {
    work::HoldingRow row;
    std::shared_ptr<const compute::ResidentExpert> resident;  ///< null: on disk only
    std::uint64_t used = 0;                                   ///< value of `clock_` at the last use
    std::map<LeaseId, bool> leases;                           ///< value: has been told it is ready
    bool is_reading = false;
    bool has_failed_read = false;  ///< not tried again in the background
    bool is_checked = false;       ///< its blob was hashed in this life
  };

  struct GateEntry {
    work::HoldingRow row;
    std::shared_ptr<const work::Gate> gate;
  };

  /// A load, from the request to the durable row.
  struct Load {
    RequestId waiter{};
    LoadSource source;
    work::HoldingRow row;
    std::shared_ptr<const compute::ResidentExpert> resident;
    std::shared_ptr<const work::Gate> gate;
    /// Of the budget: its blob's bytes, then its resident form's.
    std::uint64_t reserved_bytes = 0;
  };

  /// A blob on its way from disk to memory.
  struct Read {
    LayerKey layer;
    std::optional<ExpertIndex> expert;
    BlobHash hash{};
    bool is_background = false;
    std::uint64_t bytes = 0;  ///< reserved from the budget
  };

  struct Removal {
    RequestId waiter{};
    LayerKey layer;
    std::optional<ExpertIndex> expert;
  };

  // loads.cpp: from a blob to a durable holding, and back
  Status begin_load(Load load, Outbox& out);
  void on_load_admitted(Load load, const work::JobResult& result, Outbox& out);
  void on_load_saved(Load load, const work::StoreResult& result, Outbox& out);
  void finish_load(Load& load, Status status, Outbox& out);
  void reserve_for(Load& load, std::uint64_t bytes);
  void commit_expert(Load& load, Outbox& out);
  void commit_gate(Load& load, Outbox& out);
  void on_removed(const Removal& removal, const work::StoreResult& result, Outbox& out);

  // reads.cpp: from disk to memory
  void begin_read(Read read, Outbox& out);
  void on_blob_read(Read read, const work::StoreResult& result, Outbox& out);
  void on_read_admitted(const Read& read, const work::JobResult& result, Outbox& out);
  void end_read(const Read& read);
  void fail_read(const Read& read, const Error& error, Outbox& out);
  void on_quarantined(const Read& read, const work::StoreResult& result, Outbox& out);
  void pump(Outbox& out);
  void pump_gates(Outbox& out);
  void pump_wanted(Outbox& out);
  void pump_background(Outbox& out);

  // memory.cpp: what is resident, and who pins it
  bool make_room(std::uint64_t bytes, Outbox& out);
  void evict(const ExpertKey& key, Entry& entry, Outbox& out);
  void drop_memory(Entry& entry);
  void take_memory(Entry& entry, std::shared_ptr<const compute::ResidentExpert> resident);
  void offer(const ExpertKey& key, Entry& entry, Outbox& out);
  void refuse_waiters(const ExpertKey& key, Entry& entry, const Error& error, Outbox& out);

  Options options_;
  work::JobIds& ids_;
  std::map<ExpertKey, Entry> experts_;  // ordered: iteration reaches the outbox
  std::map<LayerKey, GateEntry> gates_;
  std::map<LeaseId, std::vector<ExpertKey>> leases_;
  /// Experts wanted by a lease and not in memory, in order of request.
  std::deque<ExpertKey> wanted_;
  /// Gates of the index still to be read.
  std::deque<LayerKey> gates_wanted_;
  std::map<JobId, Load> admitting_;
  std::map<JobId, Load> saving_;
  std::map<JobId, Read> reading_;
  std::map<JobId, Read> readmitting_;
  std::map<JobId, Removal> removing_;
  std::map<JobId, Read> quarantining_;
  Counters counters_;
  std::uint64_t reserved_bytes_ = 0;  ///< of reads and loads under way
  std::size_t background_reads_ = 0;
  std::size_t gate_reads_ = 0;
  std::uint64_t clock_ = 0;
  /// The background has looked at every expert on disk and none fits: it need not look again for
  /// now.
  bool is_settled_ = false;
};

}  // namespace tenzro::holder
