#pragma once
/// \file
/// What a Holder is told and what it asks for: its options, sources of loads, actions and counters.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::holder {

enum class LeaseId : std::uint64_t {};

struct Options {
  std::uint64_t memory_budget_bytes = 4ULL << 30U;
  std::size_t holdings_max = 1'000'000;
  std::size_t loads_max = 256;
  /// Blobs of the store that are read for loads at once.
  std::size_t loads_running_max = 4;
  std::size_t leases_max = 4096;
  std::size_t background_reads_max = 1;
  std::size_t gate_reads_max = 4;
  /// Scratch of an expert that is run by slices; half the budget where that is less.
  std::uint64_t stream_bytes_max = std::uint64_t{16} << 20U;
  /// Hash a blob at every read from disk; else at the first one of this life.
  bool verifies_every_read = false;
  /// False: what is on disk is read one after another, once the lease has let go of what was in
  /// memory. For comparison only.
  bool reads_ahead = true;
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
  /// It failed because the store's blob is gone or damaged; that is put out of the way.
  bool is_blob_lost = false;
};

struct GateLoaded {
  RequestId waiter{};
  LayerKey key;
  Status status;
  bool is_blob_lost = false;
};

struct Unloaded {
  RequestId waiter{};
  LayerKey layer;
  std::optional<ExpertIndex> expert;
  Result<bool> removed;
};

/// One expert of a lease is in memory, or can be run by slices, and stays so until the lease lets
/// go of it; or it cannot be had.
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
  /// Experts that a request asked for: found in memory, or not.
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  /// Experts read from disk into memory: for a request, or because there was room.
  std::uint64_t promoted_wanted = 0;
  std::uint64_t promoted_idle = 0;
  std::uint64_t evicted_to_disk = 0;
  /// Experts that became more than their blobs let expect, and than there was room for.
  std::uint64_t admissions_over_budget = 0;
  /// Times that an expert too large to be held was opened, to be run by slices.
  std::uint64_t streamed = 0;
};

/// The bytes of a load and where they came from.
struct LoadSource {
  /// Empty and not inline: the store has the blob `uri_hash`, of `stored_bytes`.
  BufferRef blob;
  std::optional<std::string> uri;
  std::optional<BlobHash> uri_hash;
  /// True: the caller sent the bytes; a `uri` beside them is declared only if they hash to it.
  /// False: they were read by that URI and must hash to it.
  bool is_inline = true;
  std::uint64_t stored_bytes = 0;

  [[nodiscard]] bool is_stored() const { return !is_inline && blob.empty(); }

  [[nodiscard]] std::uint64_t bytes() const { return is_stored() ? stored_bytes : blob.size(); }
};

}  // namespace tenzro::holder
