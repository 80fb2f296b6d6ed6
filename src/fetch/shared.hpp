#pragma once
/// \file
/// What all transfers of a node share: ids, the rate, the window, the totals.
#include <map>

#include "tenzro/fetch/fetches.hpp"

namespace tenzro::fetch {

struct Shared {
  Options options;
  work::CallIds& calls;
  work::JobIds& jobs;
  TokenBucket bucket;
  Totals totals;
  /// Pieces asked for or being written.
  std::size_t pieces_in_flight = 0;
  /// Operations of transfers that ended before them and that may yet give a lease.
  std::map<JobId, BlobHash> orphans;
};

}  // namespace tenzro::fetch
