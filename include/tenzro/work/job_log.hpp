#pragma once
/// \file
/// The log of prepare jobs, as store operations: what a job is, and what it has published. The
/// records are text that only the core that wrote them reads.
#include <cstdint>
#include <string>
#include <vector>

#include "tenzro/base/ids.hpp"

namespace tenzro::work {

/// The job's record, replacing the one before.
struct LogJob {
  std::string id;
  std::string record;
};

/// The job and its parts are not remembered any more; their blobs stay.
struct ForgetJob {
  std::string id;
};

/// Which part of which job a published blob is: noted together with the publication.
struct JobPart {
  std::string job;
  std::string name;
  std::string record;
};

/// Whether blobs of so many bytes fit budget and disk, with room to spare for others. Error:
/// no_space, with the numbers.
struct CheckSpace {
  std::uint64_t bytes = 0;
};

struct LoggedPart {
  std::string name;
  std::string record;
  BlobHash hash{};
  std::uint64_t size_bytes = 0;
  /// False where its blob is in the store no more.
  bool is_there = true;
};

struct LoggedJob {
  std::string id;
  std::string record;
  std::vector<LoggedPart> parts;
};

}  // namespace tenzro::work
