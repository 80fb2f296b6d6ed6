// Seeds that nobody chose. A failure names its seed; TENZRO_SEED=n replays that one alone.
#include <cstdio>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "sim/chaos.hpp"

namespace tenzro::testing {
namespace {

constexpr std::size_t kSeeds = 200;

void run_seed(std::uint64_t seed) {
  SCOPED_TRACE("TENZRO_SEED=" + std::to_string(seed));
  run_chaos({.seed = seed, .reset_per_mille = 10});
  const ChaosOutcome outcome = run_chaos({.seed = seed, .victims = 2});
  EXPECT_EQ(outcome.served, kChaosForwards) << outcome.last_error;
}

TEST(MeshRandomChaos, AnswersKeepTheirBitsAndTheMeshHeals) {
  if (const char* chosen = std::getenv("TENZRO_SEED"); chosen != nullptr)
    return run_seed(std::strtoull(chosen, nullptr, 10));
  std::random_device device;
  for (std::size_t i = 0; i < kSeeds && !HasFailure(); ++i) {
    const std::uint64_t seed = device();
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    run_seed(seed);
  }
}

}  // namespace
}  // namespace tenzro::testing
