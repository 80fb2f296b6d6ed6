#pragma once
/// \file
/// The store as maps in memory: what a disk keeps for a node, without files. Survives its node.
/// Sources of prepare jobs are real files.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tenzro/work/job.hpp"

namespace tenzro::testing {

class MapStore {
 public:
  [[nodiscard]] work::StoreResult run(const work::StoreOp& op);
  [[nodiscard]] std::vector<work::HoldingRow> rows() const;

  [[nodiscard]] std::map<BlobHash, BufferRef>& blobs() { return blobs_; }

 private:
  std::map<BlobHash, BufferRef> blobs_;
  std::map<std::pair<LayerKey, std::optional<ExpertIndex>>, work::HoldingRow> rows_;
};

}  // namespace tenzro::testing
