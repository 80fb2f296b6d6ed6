#pragma once
/// \file
/// Chance, by seed: holders die, come back, stall, part, clog and heal, lie, fill their disks and
/// lose their clocks while forwards run. Whatever happens, every forward is answered once, with the
/// bits of one node alone or an error, and after healing everything is as before.
/// Expectations are gtest's, and name the seed.
#include <cstddef>
#include <cstdint>
#include <string>

namespace tenzro::testing {

struct Chaos {
  std::uint64_t seed = 1;
  /// Of the five holders, of which each expert has three.
  std::size_t victims = 5;
  std::uint64_t reset_per_mille = 0;
};

struct ChaosOutcome {
  std::uint64_t trace = 0;
  std::size_t served = 0;
  std::string last_error;
};

inline constexpr std::size_t kChaosForwards = 40;

/// Every answer is checked as it comes.
ChaosOutcome run_chaos(const Chaos& chaos);

}  // namespace tenzro::testing
