#pragma once
/// \file
/// Source files: the checkpoint an operator pointed at, read piece by piece.
///
/// `root` is the operator's; `file` may come from an index inside the checkpoint, so from anybody:
/// it is relative and has no `..`. Symbolic links are followed wherever they lead, because the
/// caches that download tools keep are made of them. Only regular files are read. Thread: any.
#include "tenzro/base/result.hpp"
#include "tenzro/store/file_system.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::store {

/// Error: invalid_params (the name, or more than `bytes_max` at once), not_found, io (also where
/// the file is not the version that is wanted).
[[nodiscard]] Result<work::ReadBytes> read_source(FileSystem& files, const work::ReadSource& source,
                                                  std::uint64_t bytes_max);

}  // namespace tenzro::store
