// What is in memory, against a model of the budget: random requests, loads and answers in any
// order.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/holder/holder.hpp"

namespace tenzro::holder {
namespace {

constexpr ExpertIndex kExperts = 24;
constexpr std::uint64_t kBytes = 10;

class Resident final : public compute::ResidentExpert {
 public:
  explicit Resident(std::uint64_t& alive) : alive_(alive) { alive_ += kBytes; }

  ~Resident() override { alive_ -= kBytes; }

  [[nodiscard]] std::size_t bytes() const override { return kBytes; }

 private:
  std::uint64_t& alive_;
};

/// Answers what the holder asks for, when told to, and keeps account of the bytes that exist.
class World {
 public:
  explicit World(const Options& options) : holder(options, ids_) {
    std::vector<work::HoldingRow> rows;
    for (ExpertIndex e = 0; e < kExperts; ++e) {
      work::HoldingRow row{.layer = {"m", 0}, .expert = e};
      row.hash[0] = static_cast<std::uint8_t>(e + 1);
      row.facts.resident_bytes = kBytes;
      rows.push_back(row);
    }
    holder.on_index(rows, out);
    take();
  }

  /// Sorts what the holder put out.
  void take() {
    for (Action& action : out) {
      if (auto* store = std::get_if<Store>(&action)) {
        ++reads_of[std::get<work::ReadBlob>(store->op).hash[0]];
        in_flight_bytes += kBytes;
        reads.push_back(store->id);
      } else if (auto* run = std::get_if<Run>(&action)) {
        jobs.push_back({run->id, std::get<work::AdmitExpert>(run->job).expected_hash.value()});
      } else if (const auto* ready = std::get_if<ExpertReady>(&action)) {
        held[ready->lease].insert(ready->expert);
        EXPECT_NE(ready->resident, nullptr);
      }
    }
    out.clear();
  }

  void finish_read() {
    if (reads.empty()) return;
    const JobId id = reads.front();
    reads.pop_front();
    holder.on_store_done(id, work::StoreOutput(work::ReadBytes{BufferRef::allocate(kBytes)}), out);
    take();
  }

  void finish_job() {
    if (jobs.empty()) return;
    const auto [id, hash] = jobs.front();
    jobs.pop_front();
    work::AdmittedExpert admitted{.resident = std::make_shared<Resident>(resident_bytes),
                                  .hash = hash};
    admitted.facts.resident_bytes = kBytes;
    in_flight_bytes -= kBytes;
    --reads_of[hash[0]];
    holder.on_job_done(id, work::JobOutput(std::move(admitted)), out);
    take();
  }

  void settle() {
    while (!reads.empty() || !jobs.empty()) {
      finish_read();
      finish_job();
    }
  }

  void acquire(std::uint64_t lease, const std::vector<ExpertIndex>& experts) {
    ASSERT_TRUE(holder.acquire(LeaseId{lease}, {"m", 0}, experts, out));
    take();
  }

  void release_all(std::uint64_t lease) {
    holder.release_all(LeaseId{lease}, out);
    held.erase(LeaseId{lease});
    take();
  }

 private:
  work::JobIds ids_;

 public:
  Holder holder;
  Outbox out;
  std::deque<JobId> reads;
  std::deque<std::pair<JobId, BlobHash>> jobs;
  std::map<LeaseId, std::set<ExpertIndex>> held;
  std::map<std::uint8_t, int> reads_of;  ///< under way, by expert
  std::uint64_t in_flight_bytes = 0;     ///< of blobs
  std::uint64_t resident_bytes = 0;
};

TEST(HeldExperts, BytesThatExistStayWithinTheBudgetAndWhatIsLeasedStays) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    Prng prng(seed);
    const std::uint64_t budget = 40 + prng.below(100);
    World world({.memory_budget_bytes = budget, .background_reads_max = 2});
    for (int step = 0; step < 5000; ++step) {
      const std::uint64_t lease = 1 + prng.below(6);
      switch (prng.below(5)) {
        case 0: {
          std::vector<ExpertIndex> experts;
          for (std::uint64_t i = prng.below(4) + 1; i > 0; --i)
            experts.push_back(static_cast<ExpertIndex>(prng.below(kExperts)));
          world.acquire(lease, experts);
          break;
        }
        case 1:
          world.release_all(lease);
          break;
        case 2:
          world.finish_job();
          break;
        default:
          world.finish_read();
      }
      ASSERT_LE(world.in_flight_bytes + world.resident_bytes, budget) << "step " << step;
      ASSERT_EQ(world.holder.counters().memory_bytes, world.resident_bytes);
      for (const auto& [expert, count] : world.reads_of) ASSERT_LE(count, 1) << "one shared read";
      for (const auto& [id, experts] : world.held) {
        for (const ExpertIndex expert : experts)
          ASSERT_TRUE(world.holder.expert({"m", 0, expert})->in_memory) << "step " << step;
      }
    }
  }
}

TEST(HeldExperts, EveryLeaseGetsAllItAskedForHoweverSmallTheMemory) {
  World world({.memory_budget_bytes = 2 * kBytes});
  world.acquire(1, {0, 1, 2, 3});
  world.acquire(2, {3, 2, 9});
  std::map<LeaseId, std::set<ExpertIndex>> served;
  for (int turn = 0; turn < 100; ++turn) {
    world.settle();
    const auto held = std::exchange(world.held, {});
    for (const auto& [lease, experts] : held) {
      for (const ExpertIndex expert : experts) {
        served[lease].insert(expert);
        world.holder.release(lease, expert, world.out);
      }
    }
    world.take();
  }
  EXPECT_EQ(served[LeaseId{1}], (std::set<ExpertIndex>{0, 1, 2, 3}));
  EXPECT_EQ(served[LeaseId{2}], (std::set<ExpertIndex>{2, 3, 9}));
  EXPECT_EQ(world.holder.counters().admissions_over_budget, 0U);
}

TEST(HeldExperts, WhatIsInMemoryIsGivenAtOnceAndTheRestIsReadSideBySide) {
  World world({.memory_budget_bytes = 8 * kBytes, .background_reads_max = 0});
  world.acquire(1, {0, 1});
  world.settle();
  world.acquire(2, {0, 5, 1, 6, 7});
  EXPECT_EQ(world.held[LeaseId{2}], (std::set<ExpertIndex>{0, 1}));
  EXPECT_EQ(world.reads.size(), 3U);
  EXPECT_EQ(world.holder.counters().hits, 2U);
  EXPECT_EQ(world.holder.counters().misses, 5U);
}

TEST(HeldExperts, SmallerBudgetEvictsAtOnceButNotWhatIsLeased) {
  World world({.memory_budget_bytes = 8 * kBytes, .background_reads_max = 0});
  world.acquire(1, {0, 1});
  world.acquire(2, {2, 3});
  world.settle();
  world.release_all(2);
  world.holder.set_memory_budget(kBytes, world.out);
  world.take();
  EXPECT_TRUE(world.holder.expert({"m", 0, 0})->in_memory);
  EXPECT_TRUE(world.holder.expert({"m", 0, 1})->in_memory);
  EXPECT_FALSE(world.holder.expert({"m", 0, 2})->in_memory);
  world.release_all(1);
  EXPECT_LE(world.holder.counters().memory_bytes, kBytes);
}

TEST(HeldExperts, BackgroundFillsFreeMemoryWithTheMostRecentAndEvictsNothing) {
  World world({.memory_budget_bytes = 5 * kBytes});
  world.settle();
  EXPECT_EQ(world.holder.counters().evicted_to_disk, 0U);
  EXPECT_EQ(world.holder.counters().memory_experts, 4U) << "the fifth has no room for its blob";
  for (ExpertIndex e = 0; e < 4; ++e)
    EXPECT_TRUE(world.holder.expert({"m", 0, e})->in_memory) << "saved last: " << e;
}

TEST(HeldExperts, RequestsThatReadAllTheTimeDoNotKeepALoadWaitingForEver) {
  // One expert that is pinned, and the blob and weights of one that comes.
  World world({.memory_budget_bytes = 3 * kBytes, .background_reads_max = 0});
  world.acquire(1, {0});
  world.acquire(2, {1});
  const BlobHash blob{99};
  ASSERT_TRUE(world.holder.load_expert(
      RequestId{1}, {"m", 0, kExperts},
      {.uri_hash = blob, .is_inline = false, .stored_bytes = kBytes}, world.out));
  world.take();
  std::uint64_t reads = 0;
  for (std::uint64_t lease = 3; !world.reads_of.contains(99) && reads < 500; ++lease, ++reads) {
    world.finish_read();
    world.finish_job();
    // Somebody waits whenever room comes.
    world.acquire(lease, {static_cast<ExpertIndex>((lease - 1) % kExperts)});
    world.release_all(lease - 2);
  }
  EXPECT_TRUE(world.reads_of.contains(99));
  EXPECT_GE(reads, 10U) << "requests go first";
  EXPECT_LT(reads, 80U);
}

}  // namespace
}  // namespace tenzro::holder
