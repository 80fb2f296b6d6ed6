// The core's first pass against its naive twin, on random views.
#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"

#include "mesh_view.hpp"
#include "support/naive_repair.hpp"

namespace tenzro::repair {
namespace {

using std::chrono::seconds;

struct Case {
  shards::View view{shards::Options{}};
  std::vector<std::pair<ProviderAddress, ExpertKey>> absent;
  std::map<ProviderAddress, shards::View::Held> gone;
  Options options;
};

shards::Provider random_provider(Prng& prng, std::uint8_t number) {
  shards::Provider provider{.address = address(number)};
  provider.committed_tps = prng.below(3) == 0 ? 2000 : static_cast<std::uint32_t>(prng.below(1200));
  provider.is_draining = prng.below(6) == 0;
  if (prng.below(5) == 0) provider.health = shards::Health::suspect;
  if (prng.below(8) != 0) provider.repair_free_bytes = prng.below(4) * 100;
  if (prng.below(4) == 0) provider.repair_models.insert(prng.below(2) == 0 ? "*" : "b");
  // Told by all: where nobody tells, one fetch at a time may take all the room.
  for (const char* model : {"a", "b"}) provider.expert_bytes[model] = 1 + prng.below(300);
  return provider;
}

Case random_case(std::uint64_t seed) {
  Prng prng(seed);
  Case made;
  const auto nodes = static_cast<std::uint8_t>(2 + prng.below(7));
  for (std::uint8_t i = 1; i <= nodes; ++i) made.view.set_provider(random_provider(prng, i));
  for (const char* model : {"a", "b"}) {
    for (ExpertIndex e = 0; e < 12; ++e) {
      const ExpertKey key{model, e / 4, e};
      for (std::uint8_t i = 1; i <= nodes; ++i) {
        if (prng.below(4) != 0) continue;
        shards::Holding holding{.blob_uri = "u"};
        if (prng.below(6) != 0) holding.blob = blob(static_cast<std::uint8_t>(1 + prng.below(2)));
        made.view.declare(address(i), key, holding);
      }
      if (prng.below(5) != 0) continue;
      const ProviderAddress lost = address(static_cast<std::uint8_t>(200 + prng.below(2)));
      made.absent.emplace_back(lost, key);
      made.gone[lost][key.model].insert({key.layer, key.expert});
    }
  }
  made.options = {
      .self = address(1), .grace = seconds(500), .max_admissions = 1000, .fetches_max = 1000};
  made.options.policy = {.min_replication = 1 + prng.below(3), .max_replication = 4};
  made.options.slots_per_slice = 1 + prng.below(30);
  if (prng.below(3) == 0) made.options.models.insert(prng.below(2) == 0 ? "*" : "b");
  return made;
}

TEST(RepairAgainstItsNaiveTwin, NamesTheSameRowsInTheSameOrder) {
  std::size_t rows = 0;
  for (std::uint64_t seed = 0; seed < 750; ++seed) {
    const Case made = random_case(seed);
    Repair core(made.options);
    core.start(Instant{});
    for (const auto& [address, held] : made.gone)
      core.on_gone(Instant{seconds(400)}, address, held);
    const Outbox out =
        run_until(core, made.view, Instant{seconds(520)}, {.free_bytes = 1'000'000'000'000});
    std::vector<ExpertKey> fetched;
    for (const Action& action : out) fetched.push_back(std::get<FetchExpert>(action).key);
    EXPECT_EQ(fetched, testing::naive_repair(made.view, made.options, made.absent)) << seed;
    rows += fetched.size();
  }
  EXPECT_GT(rows, 800U);
}

}  // namespace
}  // namespace tenzro::repair
