#pragma once
/// \file
/// The store as maps in memory: what a disk keeps for a node, without files. Survives its node.
/// Sources of prepare jobs are real files.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/work/job.hpp"

namespace tenzro::testing {

class MapStore {
 public:
  [[nodiscard]] work::StoreResult run(const work::StoreOp& op);
  [[nodiscard]] std::vector<work::HoldingRow> rows() const;

  [[nodiscard]] std::map<BlobHash, BufferRef>& blobs() { return blobs_; }

  [[nodiscard]] const std::map<BlobHash, BufferRef>& blobs() const { return blobs_; }

  [[nodiscard]] const std::vector<work::LoggedJob>& jobs() const { return jobs_; }

  /// What CheckSpace finds free.
  std::uint64_t space_bytes = UINT64_MAX;

  [[nodiscard]] std::uint32_t leases(const BlobHash& hash) { return leases_[hash]; }

 private:
  work::StoreResult log_job(const work::LogJob& op);
  work::StoreResult run_partial(const work::StoreOp& op);

  std::map<BlobHash, BufferRef> blobs_;
  std::map<std::pair<LayerKey, std::optional<ExpertIndex>>, work::HoldingRow> rows_;
  std::map<BlobHash, std::string> partials_;
  std::map<BlobHash, std::uint32_t> leases_;
  std::vector<work::LoggedJob> jobs_;
};

}  // namespace tenzro::testing
