// A load's share of the memory budget, from the request to the durable row.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/holder/holder.hpp"

namespace tenzro::holder {
namespace {

constexpr std::uint64_t kBudget = 100;

class Resident final : public compute::ResidentExpert {
 public:
  [[nodiscard]] std::size_t bytes() const override { return 0; }
};

class Coming final : public work::ArrivingBlob {
 public:
  [[nodiscard]] std::uint64_t size_bytes() const override { return 30; }

  [[nodiscard]] Status read(std::uint64_t /*offset*/, std::span<std::byte> /*to*/) const override {
    return {};
  }

  [[nodiscard]] Result<BlobHash> hash() const override { return BlobHash{7}; }
};

struct World {
  work::JobIds ids;
  Holder holder;
  Outbox out;

  World() : World({.memory_budget_bytes = kBudget, .loads_max = 4}) {}

  explicit World(const Options& options) : holder(options, ids) {}

  template <typename T>
  [[nodiscard]] T first() const {
    for (const Action& action : out) {
      if (const auto* found = std::get_if<T>(&action)) return *found;
    }
    ADD_FAILURE() << "no such action";
    return T{};
  }

  template <typename T>
  [[nodiscard]] std::size_t count() const {
    std::size_t found = 0;
    for (const Action& action : out) found += std::holds_alternative<T>(action) ? 1U : 0U;
    return found;
  }

  /// Asks for a load of a blob of so many bytes; its job.
  JobId begin(ExpertIndex expert, std::size_t blob_bytes) {
    out.clear();
    const BufferRef blob = BufferRef::copy_of(std::string(blob_bytes, 'b'));
    EXPECT_TRUE(holder.load_expert(RequestId{1}, {"m", 0, expert}, {.blob = blob}, out));
    return last<Run>().id;
  }

  /// The job succeeds; the store's job.
  JobId admit(JobId job, ExpertIndex expert, std::uint64_t resident_bytes) {
    out.clear();
    work::AdmittedExpert admitted;
    admitted.resident = std::make_shared<Resident>();
    admitted.facts.resident_bytes = resident_bytes;
    admitted.hash[0] = static_cast<std::uint8_t>(expert);
    holder.on_job_done(job, work::JobOutput(std::move(admitted)), out);
    return last<Store>().id;
  }

  /// The same of one of which nothing was made.
  JobId admit_checked(JobId job, ExpertIndex expert, std::uint64_t blob_bytes) {
    out.clear();
    work::AdmittedExpert admitted;
    admitted.facts.resident_bytes = blob_bytes;
    admitted.hash[0] = static_cast<std::uint8_t>(expert);
    holder.on_job_done(job, work::JobOutput(std::move(admitted)), out);
    return last<Store>().id;
  }

  void save(JobId job) {
    out.clear();
    holder.on_store_done(job, work::StoreOutput(work::Saved{}), out);
  }

  void load(ExpertIndex expert, std::uint64_t bytes) {
    save(admit(begin(expert, bytes), expert, bytes));
  }

  [[nodiscard]] bool in_memory(ExpertIndex expert) const {
    return holder.expert({"m", 0, expert})->in_memory;
  }

  /// Whether the last call asked the store for a blob.
  [[nodiscard]] bool is_reading() const {
    for (const Action& action : out) {
      const auto* store = std::get_if<Store>(&action);
      if (store != nullptr && std::holds_alternative<work::ReadBlob>(store->op)) return true;
    }
    return false;
  }

 private:
  template <typename T>
  T last() {
    for (auto action = out.rbegin(); action != out.rend(); ++action) {
      if (const auto* found = std::get_if<T>(&*action)) return *found;
    }
    ADD_FAILURE() << "no such action";
    return T{};
  }
};

TEST(Loads, ABlobBeingAdmittedMakesRoomForItselfAndWhatItBecomes) {
  World world;
  world.load(0, 20);
  world.load(1, 20);
  world.load(2, 20);
  world.begin(3, 25);
  EXPECT_FALSE(world.in_memory(0)) << "the least recently used one gives way";
  EXPECT_TRUE(world.in_memory(1));
  EXPECT_TRUE(world.in_memory(2));
  EXPECT_EQ(world.holder.counters().memory_bytes, 40U);
}

TEST(Loads, WhileOneIsUnderWayNothingIsReadIntoItsRoom) {
  World world;
  world.load(0, 20);
  world.load(1, 20);
  world.load(2, 20);
  const JobId job = world.begin(3, 25);
  EXPECT_FALSE(world.is_reading());
  const JobId save = world.admit(job, 3, 30);
  EXPECT_FALSE(world.is_reading());
  world.save(save);
  EXPECT_FALSE(world.is_reading()) << "70 bytes leave no room for 20 and the blob they come from";
  EXPECT_TRUE(world.in_memory(3));
  EXPECT_EQ(world.holder.counters().memory_bytes, 70U);
  EXPECT_EQ(world.holder.counters().admissions_over_budget, 0U);
}

TEST(Loads, ThoseThatFindNoRoomWaitForThoseBeforeThem) {
  World world;
  const JobId first = world.begin(0, 30);
  world.out.clear();
  const LoadSource stored{.uri_hash = BlobHash{7}, .is_inline = false, .stored_bytes = 30};
  EXPECT_TRUE(world.holder.load_expert(RequestId{2}, {"m", 0, 1}, stored, world.out));
  EXPECT_TRUE(world.out.empty()) << "30 + 30 and 30 + 30 bytes are more than 100";
  world.save(world.admit(first, 0, 30));
  EXPECT_TRUE(world.is_reading());
}

TEST(Loads,
     BytesThatWereSentEndOnDiskWhereWhatTheyBecomeFindsNoRoomAndAreRefusedWhereTheyFindNone) {
  World world;
  const JobId first = world.begin(0, 30);
  const JobId second = world.begin(1, 30);
  EXPECT_EQ(std::get<work::AdmitExpert>(world.first<work::Run>().job).held_bytes_max, 0U);
  // The bytes of the first and what they become, an eighth more than they are, and the second's.
  EXPECT_EQ(world.holder.bytes_in_use(), 30U + 30U + 3U + 30U);
  world.out.clear();
  const BufferRef blob = BufferRef::copy_of(std::string(30, 'b'));
  const Status busy =
      world.holder.load_expert(RequestId{2}, {"m", 0, 2}, {.blob = blob}, world.out);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, ErrorCode::busy);
  EXPECT_NE(busy.error().message().find("93 of 100 bytes"), std::string::npos)
      << busy.error().message();
  EXPECT_TRUE(world.out.empty());
  world.save(world.admit_checked(second, 1, 30));
  EXPECT_TRUE(world.holder.expert({"m", 0, 1}).has_value());
  EXPECT_FALSE(world.in_memory(1));
  world.save(world.admit(first, 0, 30));
  EXPECT_TRUE(world.in_memory(0));
  EXPECT_LE(world.holder.bytes_in_use(), kBudget);
}

TEST(Loads, BytesThatWereSentAndAreMoreThanTheBudgetAreRefusedWithTheNumbers) {
  World world;
  const BufferRef blob = BufferRef::copy_of(std::string(kBudget + 1, 'b'));
  const Status refused =
      world.holder.load_expert(RequestId{1}, {"m", 0, 0}, {.blob = blob}, world.out);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::no_space);
  EXPECT_NE(refused.error().message().find("101 bytes does not fit in the 100 bytes"),
            std::string::npos)
      << refused.error().message();
  EXPECT_EQ(world.holder.bytes_in_use(), 0U);
}

TEST(Loads, BytesThatWereSentDoNotOvertakeALoadOfTheSameExpertThatWaits) {
  World world;
  world.begin(0, 40);  // takes 80
  const LoadSource stored{.uri_hash = BlobHash{7}, .is_inline = false, .stored_bytes = 30};
  EXPECT_TRUE(world.holder.load_expert(RequestId{2}, {"m", 0, 1}, stored, world.out));
  const BufferRef blob = BufferRef::copy_of(std::string(10, 'b'));
  EXPECT_FALSE(world.holder.load_expert(RequestId{3}, {"m", 0, 1}, {.blob = blob}, world.out));
  EXPECT_TRUE(world.holder.load_expert(RequestId{3}, {"m", 0, 2}, {.blob = blob}, world.out));
}

TEST(Loads, BlobThatArrivesIsAdmittedFromWhatComes) {
  World world({.memory_budget_bytes = 1000});
  const LoadSource stored{.uri_hash = BlobHash{7}, .is_inline = false, .stored_bytes = 30};
  EXPECT_TRUE(world.holder.load_expert(RequestId{1}, {"m", 0, 0}, stored, world.out));
  const Store read = world.first<Store>();
  EXPECT_TRUE(std::get<work::ReadBlob>(read.op).may_arrive);
  const auto blob = std::make_shared<Coming>();
  world.holder.on_store_done(read.id, work::StoreOutput(work::Arriving{blob}), world.out);
  const auto admit = std::get<work::AdmitExpert>(world.first<work::Run>().job);
  EXPECT_EQ(admit.arriving, blob);
  EXPECT_FALSE(admit.is_checked);
  EXPECT_FALSE(admit.are_values_known);
}

TEST(Loads, BlobsOfTheStoreAreReadAFewAtATimeAndNotSentBack) {
  World world({.memory_budget_bytes = 1000, .loads_running_max = 2});
  const BlobHash hash{7};
  for (ExpertIndex e = 0; e < 4; ++e) {
    const LoadSource source{.uri_hash = hash, .is_inline = false, .stored_bytes = 30};
    EXPECT_TRUE(world.holder.load_expert(RequestId{e}, {"m", 0, e}, source, world.out));
  }
  EXPECT_EQ(world.count<Store>(), 2U);
  const auto read = std::get<work::ReadBlob>(world.first<Store>().op);
  EXPECT_EQ(read.hash, hash);
  EXPECT_TRUE(read.wants_hash);
  const JobId id = world.first<Store>().id;
  world.out.clear();
  const BufferRef blob = BufferRef::copy_of(std::string(30, 'b'));
  world.holder.on_store_done(id, work::StoreOutput(work::ReadBytes{blob, hash}), world.out);
  const work::Run run = world.first<work::Run>();
  EXPECT_TRUE(std::get<work::AdmitExpert>(run.job).is_checked) << "hashed while it was read";
  world.admit(run.id, 0, 30);
  const auto save = std::get<work::SaveHolding>(world.first<Store>().op);
  EXPECT_TRUE(save.blob.empty());
}

TEST(Loads, ResidentFormSmallerThanItsBlobGivesTheRestBack) {
  World world;
  world.load(0, 20);
  world.load(1, 20);
  world.load(2, 20);
  const JobId job = world.begin(3, 25);
  world.save(world.admit(job, 3, 10));
  EXPECT_TRUE(world.is_reading()) << "50 bytes leave room for the 20 that gave way";
}

TEST(Loads, AFailedLoadGivesItsRoomBack) {
  for (const bool fails_at_the_store : {false, true}) {
    World world;
    world.load(0, 20);
    world.load(1, 20);
    world.load(2, 20);
    const JobId job = world.begin(3, 25);
    const Error error{ErrorCode::runtime, "", "no"};
    if (fails_at_the_store) {
      const JobId save = world.admit(job, 3, 25);
      world.out.clear();
      world.holder.on_store_done(save, tl::unexpected(error), world.out);
    } else {
      world.out.clear();
      world.holder.on_job_done(job, tl::unexpected(error), world.out);
    }
    EXPECT_TRUE(world.is_reading()) << "the expert that gave way comes back";
  }
}

TEST(Loads, OneThatFillsTheBudgetEndsOnDiskAndGivesItsRoomBack) {
  World world;
  world.load(0, 40);
  world.save(world.admit_checked(world.begin(1, 90), 1, 90));
  EXPECT_FALSE(world.in_memory(1));
  EXPECT_TRUE(world.is_reading()) << "the expert that gave way comes back";
  EXPECT_EQ(world.holder.counters().memory_bytes, 0U);
}

/// Answers a load's job: it needs more than it may have, and so much.
void need(World& world, JobId job, std::uint64_t held, std::uint64_t streamed) {
  world.out.clear();
  work::AdmittedExpert admitted{.resident = nullptr, .hash = BlobHash{7}};
  admitted.facts.resident_bytes = held;
  admitted.stream_bytes_min = streamed;
  world.holder.on_job_done(job, work::JobOutput(std::move(admitted)), world.out);
}

TEST(Loads, WhatNeedsMoreThanItsBlobLetExpectComesInByWhatItNeeds) {
  World world;
  const JobId job = world.begin(0, 10);
  EXPECT_EQ(std::get<work::AdmitExpert>(world.first<work::Run>().job).held_bytes_max, 11U);
  need(world, job, 60, 20);
  const auto again = world.first<work::Run>();
  const auto& admit = std::get<work::AdmitExpert>(again.job);
  EXPECT_EQ(admit.held_bytes_max, 60U);
  EXPECT_TRUE(admit.is_checked);
  EXPECT_EQ(admit.expected_hash, BlobHash{7});
  world.save(world.admit(again.id, 0, 60));
  EXPECT_TRUE(world.in_memory(0));
  EXPECT_EQ(world.holder.counters().memory_bytes, 60U);
}

TEST(Loads, WhatNeedsMoreThanThereIsRoomForEndsOnDisk) {
  World world;
  const JobId job = world.begin(0, 10);
  need(world, job, 95, 20);  // beside its blob that is more than 100
  world.save(world.first<Store>().id);
  EXPECT_FALSE(world.in_memory(0));
  EXPECT_EQ(world.holder.counters().memory_bytes, 0U);
  EXPECT_EQ(world.holder.facts({"m", 0, 0})->resident_bytes, 95U);
}

TEST(Loads, WhatCouldNeverBeUsedHereIsRefusedWithTheNumbersAndNotHeld) {
  for (const bool is_inline : {true, false}) {
    World world;
    JobId job{};
    if (is_inline) {
      job = world.begin(0, 10);
    } else {
      const LoadSource source{.uri_hash = BlobHash{7}, .is_inline = false, .stored_bytes = 10};
      ASSERT_TRUE(world.holder.load_expert(RequestId{1}, {"m", 0, 0}, source, world.out));
      const JobId read = world.first<Store>().id;
      const work::ReadBytes bytes{.bytes = BufferRef::allocate(10), .hash = BlobHash{7}};
      world.out.clear();
      world.holder.on_store_done(read, work::StoreOutput(bytes), world.out);
      job = world.first<work::Run>().id;
    }
    need(world, job, 160, 51);  // slices have half the budget
    EXPECT_EQ(world.count<Store>() + world.count<work::Run>() + world.count<ExpertChanged>(), 0U);
    const auto loaded = world.first<ExpertLoaded>();
    ASSERT_FALSE(loaded.status);
    EXPECT_FALSE(loaded.is_blob_lost);
    EXPECT_EQ(loaded.status.error().code, ErrorCode::no_space);
    for (const char* number : {"160", "51", "100", "50"})
      EXPECT_NE(loaded.status.error().message().find(number), std::string::npos) << number;
    EXPECT_FALSE(world.holder.expert({"m", 0, 0}).has_value());
    world.load(1, 50);  // all of the room is free again
    EXPECT_TRUE(world.in_memory(1));
  }
}

TEST(Loads, BlobOfTheStoreIsReadAgainByWhatItNeeds) {
  World world;
  const LoadSource source{.uri_hash = BlobHash{7}, .is_inline = false, .stored_bytes = 10};
  ASSERT_TRUE(world.holder.load_expert(RequestId{1}, {"m", 0, 0}, source, world.out));
  const JobId read = world.first<Store>().id;
  const work::ReadBytes bytes{.bytes = BufferRef::allocate(10), .hash = BlobHash{7}};
  world.out.clear();
  world.holder.on_store_done(read, work::StoreOutput(bytes), world.out);
  need(world, world.first<work::Run>().id, 60, 20);
  const auto again = world.first<Store>();
  EXPECT_TRUE(std::holds_alternative<work::OpenBlob>(again.op)) << "60 and 60 are more than 100";
  world.out.clear();
  world.holder.on_store_done(again.id, work::StoreOutput(work::OpenedBlob{}), world.out);
  const auto run = world.first<work::Run>();
  EXPECT_EQ(std::get<work::AdmitExpert>(run.job).memory_bytes_max, 85U);
  world.save(world.admit(run.id, 0, 60));
  EXPECT_TRUE(world.in_memory(0));
}

}  // namespace
}  // namespace tenzro::holder
