// The memory budget against everything that moves it: loads, reloads, unloads, leases, a budget
// that changes, and experts too large for it.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/holder/holder.hpp"

namespace tenzro::holder {
namespace {

constexpr ExpertIndex kExperts = 12;

class Resident final : public compute::ResidentExpert {
 public:
  Resident(std::uint64_t& alive, std::uint64_t bytes) : alive_(alive), bytes_(bytes) {
    alive_ += bytes_;
  }

  ~Resident() override { alive_ -= bytes_; }

  [[nodiscard]] std::size_t bytes() const override { return bytes_; }

 private:
  std::uint64_t& alive_;
  std::uint64_t bytes_;
};

/// Answers what the holder asks for, when told to. Blobs are as large as what they become, and a
/// hash says how large: [1].
class World {
 public:
  explicit World(std::uint64_t budget)
      : holder({.memory_budget_bytes = budget, .background_reads_max = 2}, ids_) {}

  void acquire(LeaseId lease, ExpertIndex expert) {
    ASSERT_TRUE(holder.acquire(lease, {"m", 0}, {expert}, out_));
    take();
  }

  void release(LeaseId lease, ExpertIndex expert) {
    held_.erase({lease, expert});
    holder.release(lease, expert, out_);
    take();
  }

  void release_all(LeaseId lease) {
    std::erase_if(held_, [&](const auto& one) { return one.first.first == lease; });
    holder.release_all(lease, out_);
    take();
  }

  void load(ExpertIndex expert, std::uint8_t bytes) {
    const BlobHash hash{static_cast<std::uint8_t>(expert), bytes, ++version_};
    const LoadSource source{.uri_hash = hash, .is_inline = false, .stored_bytes = bytes};
    static_cast<void>(holder.load_expert(RequestId{1}, {"m", 0, expert}, source, out_));
    take();
  }

  void unload(ExpertIndex expert) {
    holder.unload_expert(RequestId{1}, {"m", 0, expert}, out_);
    take();
  }

  void set_budget(std::uint64_t bytes) {
    holder.set_memory_budget(bytes, out_);
    take();
  }

  /// One job or operation ends; false: none is under way.
  bool finish(std::uint64_t which) {
    if (pending_.empty()) return false;
    const auto at = pending_.begin() + static_cast<std::ptrdiff_t>(which % pending_.size());
    Pending pending = std::move(*at);
    pending_.erase(at);
    const std::uint8_t bytes = pending.hash[1];
    if (pending.kind == Kind::job) {
      blob_bytes_ -= bytes;
      work::AdmittedExpert admitted{.resident = std::make_shared<Resident>(alive_, bytes),
                                    .hash = pending.hash};
      admitted.facts.resident_bytes = bytes;
      last_ = admitted.resident;
      holder.on_job_done(pending.id, work::JobOutput(std::move(admitted)), out_);
    } else if (pending.kind == Kind::read) {
      const work::ReadBytes read{BufferRef::allocate(bytes), pending.hash};
      holder.on_store_done(pending.id, work::StoreOutput(read), out_);
    } else if (pending.kind == Kind::save) {
      holder.on_store_done(pending.id, work::StoreOutput(work::Saved{}), out_);
    } else {
      holder.on_store_done(pending.id, work::StoreOutput(work::Removed{true}), out_);
    }
    take();
    return true;
  }

  /// Weights and blobs that exist.
  [[nodiscard]] std::uint64_t bytes() const { return alive_ + blob_bytes_; }

  /// Weights that are the holder's or a lease's: not those of a load that is being saved.
  [[nodiscard]] std::uint64_t settled_bytes() const {
    std::uint64_t saving = 0;
    for (const Pending& pending : pending_) {
      if (const auto resident = pending.resident.lock()) saving += resident->bytes();
    }
    return alive_ - saving;
  }

 private:
  enum class Kind : std::uint8_t { read, job, save, removal };

  struct Pending {
    Kind kind{};
    JobId id{};
    BlobHash hash{};
    std::weak_ptr<const compute::ResidentExpert> resident;
  };

  void take() {
    for (Action& action : out_) {
      if (auto* store = std::get_if<Store>(&action)) {
        take_store(*store);
      } else if (auto* run = std::get_if<Run>(&action)) {
        const auto& admit = std::get<work::AdmitExpert>(run->job);
        pending_.push_back({Kind::job, run->id, admit.expected_hash.value(), {}});
      } else if (auto* ready = std::get_if<ExpertReady>(&action)) {
        held_[{ready->lease, ready->expert}].push_back(std::move(ready->resident));
      }
    }
    out_.clear();
  }

  void take_store(const Store& store) {
    if (const auto* read = std::get_if<work::ReadBlob>(&store.op)) {
      blob_bytes_ += read->hash[1];
      pending_.push_back({Kind::read, store.id, read->hash, {}});
    } else if (const auto* save = std::get_if<work::SaveHolding>(&store.op)) {
      pending_.push_back({Kind::save, store.id, save->row.hash, last_});
    } else {
      ASSERT_TRUE(std::holds_alternative<work::RemoveHolding>(store.op));
      pending_.push_back({Kind::removal, store.id, {}, {}});
    }
  }

  work::JobIds ids_;
  std::uint64_t alive_ = 0;
  std::uint64_t blob_bytes_ = 0;
  std::uint8_t version_ = 0;
  std::weak_ptr<const compute::ResidentExpert> last_;  ///< that a job made
  std::deque<Pending> pending_;
  Outbox out_;

 public:
  Holder holder;

 private:
  std::map<std::pair<LeaseId, ExpertIndex>,
           std::vector<std::shared_ptr<const compute::ResidentExpert>>>
      held_;
};

void step(World& world, Prng& prng) {
  const auto expert = static_cast<ExpertIndex>(prng.below(kExperts));
  const LeaseId lease{1 + prng.below(5)};
  switch (prng.below(12)) {
    case 0:
    case 1:
      return world.acquire(lease, expert);
    case 2:
      return world.release(lease, expert);
    case 3:
      return world.release_all(lease);
    case 4:
    case 5: {
      constexpr std::uint8_t kSizes[] = {5, 10, 10, 20, 60, 150};
      return world.load(expert, kSizes[prng.below(std::size(kSizes))]);
    }
    case 6:
      if (prng.below(3) == 0) world.unload(expert);
      return;
    case 7:
      if (prng.below(10) == 0) world.set_budget(50 + prng.below(90));
      return;
    default:
      world.finish(prng.next());
  }
}

TEST(Budget, IsKeptByAllThatComesAndGoesAndCountsWhatLeasesStillUse) {
  std::uint64_t over_budget = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    Prng prng(seed);
    World world(100);
    for (int i = 0; i < 6000; ++i) {
      const std::uint64_t before = world.bytes();
      const std::uint64_t alone = world.holder.counters().admissions_over_budget;
      step(world, prng);
      const std::string where = "seed " + std::to_string(seed) + " step " + std::to_string(i);
      ASSERT_EQ(world.holder.counters().memory_bytes, world.settled_bytes()) << where;
      // A smaller budget takes nothing from who uses it; but then nothing more comes.
      const std::uint64_t most = std::max(before, world.holder.memory_budget_bytes());
      const bool came_alone = world.holder.counters().admissions_over_budget > alone;
      ASSERT_LE(world.bytes(), came_alone ? 150 : most) << where;
    }
    over_budget += world.holder.counters().admissions_over_budget;
    for (std::uint64_t lease = 1; lease <= 5; ++lease) world.release_all(LeaseId{lease});
    while (world.finish(0)) {
    }
    EXPECT_LE(world.bytes(), world.holder.memory_budget_bytes());
    EXPECT_EQ(world.holder.counters().memory_bytes, world.bytes());
  }
  EXPECT_GT(over_budget, 10U);
}

TEST(Budget, ReplacedAndUnloadedWeightsCountUntilTheirLastLeaseLetsGo) {
  World world(1000);
  world.load(0, 10);
  while (world.finish(0)) {
  }
  world.acquire(LeaseId{1}, 0);
  world.acquire(LeaseId{2}, 0);
  world.load(0, 20);
  while (world.finish(0)) {
  }
  EXPECT_EQ(world.holder.counters().memory_bytes, 30U);
  world.unload(0);
  while (world.finish(0)) {
  }
  EXPECT_EQ(world.holder.counters().memory_bytes, 10U);
  world.release(LeaseId{1}, 0);
  EXPECT_EQ(world.holder.counters().memory_bytes, 10U);
  world.release_all(LeaseId{2});
  EXPECT_EQ(world.holder.counters().memory_bytes, 0U);
}

TEST(Budget, WhatFitsPassesAnExpertThatDoesNotSoManyTimesAndThenWaits) {
  World world(100);
  world.load(0, 60);
  for (ExpertIndex e = 1; e < 40; ++e) world.load(e, 10);
  while (world.finish(0)) {
  }
  world.acquire(LeaseId{1}, 1);
  while (world.finish(0)) {
  }
  world.acquire(LeaseId{2}, 0);  // waits until nothing is pinned
  std::size_t passed = 0;
  for (ExpertIndex e = 2; e < 40; ++e) {
    if (world.holder.expert({"m", 0, e})->in_memory) continue;
    world.acquire(LeaseId{3}, e);
    while (world.finish(0)) {
    }
    if (!world.holder.expert({"m", 0, e})->in_memory) break;
    ++passed;
    world.release_all(LeaseId{3});
  }
  EXPECT_EQ(passed, 16U);
  EXPECT_FALSE(world.holder.expert({"m", 0, 0})->in_memory);
  world.release_all(LeaseId{3});
  world.release_all(LeaseId{1});
  while (world.finish(0)) {
  }
  EXPECT_TRUE(world.holder.expert({"m", 0, 0})->in_memory);
}

TEST(Budget, LoadsThatFitPassOneThatDoesNotSoManyTimesAndThenWait) {
  World world(100);
  world.load(0, 10);
  while (world.finish(0)) {
  }
  world.acquire(LeaseId{1}, 0);
  world.load(1, 60);  // waits until nothing is pinned
  std::size_t passed = 0;
  for (ExpertIndex e = 2; e < 40; ++e) {
    world.load(e, 10);
    while (world.finish(0)) {
    }
    if (!world.holder.expert({"m", 0, e})) break;
    ++passed;
  }
  EXPECT_EQ(passed, 16U);
  EXPECT_FALSE(world.holder.expert({"m", 0, 1}));
  world.release_all(LeaseId{1});
  while (world.finish(0)) {
  }
  EXPECT_TRUE(world.holder.expert({"m", 0, 1}));
  EXPECT_TRUE(world.holder.expert({"m", 0, 18}));
}

}  // namespace
}  // namespace tenzro::holder
