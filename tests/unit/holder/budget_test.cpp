// The memory budget against everything that moves it: loads, reloads, unloads, leases, a budget
// that changes, and experts too large for it.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
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

/// What the holder pays for an expert that runs by slices is its scratch.
class StreamedResident final : public compute::ResidentExpert {
 public:
  StreamedResident(std::uint64_t& alive, std::uint64_t bytes) : scratch_(alive, bytes) {}

  [[nodiscard]] std::size_t bytes() const override { return scratch_.bytes(); }

  [[nodiscard]] bool is_streamed() const override { return true; }

 private:
  Resident scratch_;
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
    finishing_ = {pending.hash, pending.budget};
    if (pending.kind == Kind::job) {
      const bool is_by_slices = pending.memory_bytes_max.has_value();
      if (!is_by_slices) blob_bytes_ -= bytes;
      work::AdmittedExpert admitted{.resident = nullptr, .hash = pending.hash};
      if (is_by_slices && bytes > *pending.memory_bytes_max) {
        admitted.resident = std::make_shared<StreamedResident>(alive_, *pending.memory_bytes_max);
      } else {
        admitted.resident = std::make_shared<Resident>(alive_, bytes);
      }
      admitted.facts.resident_bytes = bytes;
      last_ = admitted.resident;
      holder.on_job_done(pending.id, work::JobOutput(std::move(admitted)), out_);
    } else if (pending.kind == Kind::open) {
      holder.on_store_done(pending.id, work::StoreOutput(work::OpenedBlob{}), out_);
    } else if (pending.kind == Kind::read) {
      const work::ReadBytes read{BufferRef::allocate(bytes), pending.hash};
      holder.on_store_done(pending.id, work::StoreOutput(read), out_);
    } else if (pending.kind == Kind::save) {
      holder.on_store_done(pending.id, work::StoreOutput(work::Saved{}), out_);
    } else {
      holder.on_store_done(pending.id, work::StoreOutput(work::Removed{true}), out_);
    }
    take();
    finishing_ = {};
    return true;
  }

  /// The largest budget under which something began that is not over.
  [[nodiscard]] std::uint64_t budget_max() const {
    std::uint64_t most = holder.memory_budget_bytes();
    for (const Pending& pending : pending_) most = std::max(most, pending.budget);
    return most;
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
  enum class Kind : std::uint8_t { read, open, job, save, removal };

  struct Pending {
    Kind kind{};
    JobId id{};
    BlobHash hash{};
    std::weak_ptr<const compute::ResidentExpert> resident;
    std::optional<std::uint64_t> memory_bytes_max;
    std::uint64_t budget = 0;  ///< under which it began
  };

  void push(Pending pending) {
    pending.budget = holder.memory_budget_bytes();
    // A read and what becomes of it are one.
    if (pending.hash == finishing_.first && pending.kind == Kind::job)
      pending.budget = finishing_.second;
    pending_.push_back(std::move(pending));
  }

  void take() {
    for (Action& action : out_) {
      if (auto* store = std::get_if<Store>(&action)) {
        take_store(*store);
      } else if (auto* run = std::get_if<Run>(&action)) {
        const auto& admit = std::get<work::AdmitExpert>(run->job);
        push({Kind::job, run->id, admit.expected_hash.value(), {}, admit.memory_bytes_max});
      } else if (auto* ready = std::get_if<ExpertReady>(&action)) {
        held_[{ready->lease, ready->expert}].push_back(std::move(ready->resident));
      }
    }
    out_.clear();
  }

  void take_store(const Store& store) {
    if (const auto* read = std::get_if<work::ReadBlob>(&store.op)) {
      blob_bytes_ += read->hash[1];
      push({Kind::read, store.id, read->hash, {}});
    } else if (const auto* open = std::get_if<work::OpenBlob>(&store.op)) {
      push({Kind::open, store.id, open->hash, {}});
    } else if (const auto* save = std::get_if<work::SaveHolding>(&store.op)) {
      push({Kind::save, store.id, save->row.hash, last_});
    } else {
      ASSERT_TRUE(std::holds_alternative<work::RemoveHolding>(store.op));
      push({Kind::removal, store.id, {}, {}});
    }
  }

  work::JobIds ids_;
  std::uint64_t alive_ = 0;
  std::uint64_t blob_bytes_ = 0;
  std::uint8_t version_ = 0;
  std::weak_ptr<const compute::ResidentExpert> last_;  ///< that a job made
  std::pair<BlobHash, std::uint64_t> finishing_;
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
  std::uint64_t streamed = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    Prng prng(seed);
    World world(100);
    for (int i = 0; i < 6000; ++i) {
      const std::uint64_t before = world.bytes();
      const std::uint64_t begun = world.budget_max();
      step(world, prng);
      const std::string where = "seed " + std::to_string(seed) + " step " + std::to_string(i);
      ASSERT_EQ(world.holder.counters().memory_bytes, world.settled_bytes()) << where;
      // A smaller budget takes nothing from who uses it, nor from what has begun; nothing more
      // comes.
      ASSERT_LE(world.bytes(), std::max({before, begun, world.holder.memory_budget_bytes()}))
          << where;
    }
    EXPECT_EQ(world.holder.counters().admissions_over_budget, 0U);
    streamed += world.holder.counters().streamed;
    for (std::uint64_t lease = 1; lease <= 5; ++lease) world.release_all(LeaseId{lease});
    while (world.finish(0)) {
    }
    EXPECT_LE(world.bytes(), world.holder.memory_budget_bytes());
    EXPECT_EQ(world.holder.counters().memory_bytes, world.bytes());
  }
  EXPECT_GT(streamed, 10U);
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

TEST(Budget, ExpertOfTwiceTheBudgetRunsBySlicesAndIsNeverInMemory) {
  World world(100);
  world.load(0, 200);
  while (world.finish(0)) {
  }
  ASSERT_TRUE(world.holder.expert({"m", 0, 0}).has_value());
  EXPECT_EQ(world.bytes(), 0U);
  world.acquire(LeaseId{1}, 0);
  world.acquire(LeaseId{2}, 0);
  while (world.finish(0)) {
  }
  EXPECT_EQ(world.bytes(), 50U) << "scratch of half the budget, for both";
  EXPECT_EQ(world.holder.counters().streamed, 1U);
  EXPECT_FALSE(world.holder.expert({"m", 0, 0})->in_memory);
  EXPECT_EQ(world.holder.counters().memory_experts, 0U);
  world.acquire(LeaseId{3}, 0);
  world.release_all(LeaseId{1});
  world.release_all(LeaseId{2});
  EXPECT_EQ(world.bytes(), 50U);
  world.release_all(LeaseId{3});
  EXPECT_EQ(world.bytes(), 0U);
  EXPECT_EQ(world.holder.counters().memory_bytes, 0U);
}

TEST(Budget, ExpertThatDoesNotFitWithItsBlobIsPackedAsItIsReadAndStays) {
  World world(100);
  world.load(0, 60);
  while (world.finish(0)) {
  }
  EXPECT_TRUE(world.holder.expert({"m", 0, 0})->in_memory);
  EXPECT_EQ(world.bytes(), 60U);
  EXPECT_EQ(world.holder.counters().streamed, 0U);
}

TEST(Budget, BackgroundPacksAsItReadsWhatHasNoRoomForItsBlobBesideTheRest) {
  World world(100);
  for (ExpertIndex e = 0; e < 4; ++e) {
    world.load(e, 37);
    while (world.finish(0)) {
    }
  }
  EXPECT_EQ(world.holder.counters().memory_experts, 2U) << "37 + 2 x 37 are more than 100";
  EXPECT_EQ(world.bytes(), 74U);
}

TEST(Budget, BackgroundBringsBackAnExpertOfMoreThanHalfTheBudget) {
  World world(100);
  world.load(0, 60);
  while (world.finish(0)) {
  }
  world.set_budget(50);
  ASSERT_FALSE(world.holder.expert({"m", 0, 0})->in_memory);
  world.set_budget(100);
  while (world.finish(0)) {
  }
  EXPECT_TRUE(world.holder.expert({"m", 0, 0})->in_memory);
  EXPECT_EQ(world.holder.counters().streamed, 0U);
}

TEST(Budget, BackgroundDoesNotTryAgainWhatBecameLargerThanItsRoom) {
  work::JobIds ids;
  Holder holder({.memory_budget_bytes = 100}, ids);
  work::HoldingRow row{.layer = {"m", 0}, .expert = ExpertIndex{0}};
  row.facts.resident_bytes = 60;
  Outbox out;
  holder.on_index({row}, out);
  const auto open = std::get<Store>(out.back());
  ASSERT_TRUE(std::holds_alternative<work::OpenBlob>(open.op));
  out.clear();
  holder.on_store_done(open.id, work::StoreOutput(work::OpenedBlob{}), out);
  const auto admit = std::get<work::Run>(out.back());
  out.clear();
  std::uint64_t alive = 0;
  work::AdmittedExpert admitted{.resident = std::make_shared<StreamedResident>(alive, 50)};
  admitted.facts.resident_bytes = 60;
  holder.on_job_done(admit.id, work::JobOutput(admitted), out);
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(holder.counters().memory_bytes, 0U);
  ASSERT_TRUE(holder.acquire(LeaseId{1}, {"m", 0}, {0}, out));
  EXPECT_EQ(out.size(), 1U) << "whoever wants it has it read";
}

TEST(Budget, WhatFitsPassesAnExpertThatDoesNotSoManyTimesAndThenWaits) {
  World world(100);
  world.load(0, 74);
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
  world.load(1, 74);  // waits until nothing is pinned
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
