#pragma once
/// \file
/// Workshop: what the jobs and operations of a node run on.
#include <string>

#include "tenzro/exec/loop.hpp"
#include "tenzro/exec/pool.hpp"
#include "tenzro/store/store.hpp"
#include "tenzro/work/bodies.hpp"

namespace tenzro::daemon {

/// All outlive the shell.
struct Workshop {
  exec::Loop& loop;
  exec::Pool& pool;
  store::Store& store;
  work::JobContext jobs;
  /// Where the store keeps blobs; empty: this node takes none by itself.
  std::string blob_dir = {};
};

}  // namespace tenzro::daemon
