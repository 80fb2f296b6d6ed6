#pragma once
/// \file
/// What the node keeps for repair: the core, the loads it asked for, the copies being given up.
///
/// A fetch for repair is a load by URI of the node's own: the same path, checks and leases as a
/// caller's, under a request id of its own kind, and its answer goes to the core. Bounds: those of
/// the core.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tenzro/node/node.hpp"

#include "copy_proof.hpp"

namespace tenzro::node {

struct Repairs {
  Repairs(const Options& options, const ProviderAddress& self);

  /// Such a blob is served to nobody. Why: whoever is asked to prove its copy could pass the
  /// question on to this node, and two that drop for each other must both fail.
  [[nodiscard]] bool is_letting_go_of(const BlobHash& blob) const;

  repair::Repair core;
  std::uint64_t last_request = 0;
  std::map<RequestId, ExpertKey> loads;
  std::map<ExpertKey, RequestId> requests;  ///< the same, by expert
  std::map<RequestId, CopyProof> drops;
  std::map<RequestId, BlobHash> unloads;  ///< proven, and not yet gone from here
  /// Not yet taken by Node::on_own_answers; empty between events.
  std::vector<std::pair<RequestId, Result<rpc::Answer>>> answers;
  std::optional<std::uint64_t> disk_free;
  /// Of everything held, on both tiers; absent: to be counted again.
  std::optional<std::uint64_t> held_bytes;
  std::optional<std::uint64_t> announced;  ///< room, as told last
};

}  // namespace tenzro::node
