#pragma once
/// \file
/// Turns errno into an Error: which file, what was tried, what the system said, and where a disk is
/// full, the numbers.
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"

namespace tenzro::store {

/// The system's words for an errno value, in English, without a number.
[[nodiscard]] std::string errno_text(int error);

/// `path: cannot <doing>: <errno text>`. Code no_space for a full disk or quota (with the free
/// bytes of the file system that `path` is on), not_found for a missing file, io for the rest.
[[nodiscard]] Error os_error(const std::string& path, std::string_view doing, int error);

/// "123 of 456 bytes are free", of the file system that `path` (or its folder) is on; empty where
/// it cannot be asked.
[[nodiscard]] std::string free_space_text(const std::string& path);

}  // namespace tenzro::store
