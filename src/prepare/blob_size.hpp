#pragma once
/// \file
/// How large a blob will be at most, told before its bytes are read. Pure.
#include <cstdint>

#include "tenzro/work/source.hpp"

namespace tenzro::prepare {

[[nodiscard]] std::uint64_t blob_bytes_max(const work::BuildExpertBlob& job);
[[nodiscard]] std::uint64_t blob_bytes_max(const work::BuildGateBlob& job);

}  // namespace tenzro::prepare
