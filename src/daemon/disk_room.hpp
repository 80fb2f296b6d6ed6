#pragma once
/// \file
/// How many bytes of blobs the disk can still take.
#include <cstdint>
#include <string>

#include "tenzro/store/store.hpp"

namespace tenzro::daemon {

/// The least of what the budget leaves and what the file system of `blob_dir` has free, a reserve
/// of a twentieth of it, a gibibyte at most, put aside. Where the file system does not tell, the
/// budget counts; without a budget it is then 0.
[[nodiscard]] std::uint64_t disk_room(const std::string& blob_dir, const store::Usage& usage);

}  // namespace tenzro::daemon
