#pragma once
/// \file
/// Rows of tier_bench about the store alone: reads side by side, and the index of what is held.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report.hpp"

namespace tenzro::bench {

inline constexpr std::uint32_t kTierWidth = 2048;
inline constexpr std::uint32_t kTierFfn = 768;  ///< 5 MB in Q8_0
inline constexpr std::size_t kTierReaders = 8;

void add_reads(const std::string& folder, std::size_t samples, std::vector<Row>& rows);
void add_index(std::vector<Row>& rows);

}  // namespace tenzro::bench
