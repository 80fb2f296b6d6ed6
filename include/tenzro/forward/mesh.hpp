#pragma once
/// \file
/// What every forward of a node shares: who holds what, what is thought of them, the sources of ids
/// and of chance, and the limits.
///
/// References to the owner's objects, which outlive every forward. Thread: the owner's only.
#include "tenzro/base/prng.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/ledger/standing.hpp"
#include "tenzro/shards/view.hpp"
#include "tenzro/work/job.hpp"
#include "tenzro/work/peer.hpp"

namespace tenzro::forward {

/// What is known of the experts this node holds itself.
class Facts {
 public:
  virtual ~Facts() = default;
  /// Null where it is not held here.
  [[nodiscard]] virtual const work::ExpertFacts* find(const ExpertKey& key) const = 0;
};

struct Limits {
  /// One attempt at one holder, from its encoding to its verified reply.
  Duration attempt_timeout = std::chrono::seconds(5);
  /// Ask a second holder when the first is late.
  bool hedges = true;
  std::uint32_t replans_max = 2;
  /// How often an expert whose holders are all busy is planned again.
  std::uint32_t waits_max = 16;
  Duration wait_first = std::chrono::milliseconds(100);
  Duration wait_max = std::chrono::seconds(1);
  std::uint32_t hot_threshold_tps = 1000;
};

struct Mesh {
  work::JobIds& jobs;
  work::CallIds& calls;
  const shards::View& view;
  ledger::Standings& standings;
  const Facts& facts;
  Prng& prng;  ///< of nonces
  ProviderAddress self{};
  EndpointId router{};  ///< this node's key, named in receipts
  Limits limits;
};

}  // namespace tenzro::forward
