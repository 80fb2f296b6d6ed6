// Damaged blobs: what the holder withdraws, and what a load does about them.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/holder/holder.hpp"
#include "tenzro/wire/expert_blob.hpp"

namespace tenzro::holder {
namespace {

constexpr BlobHash kShared{7};

class Resident final : public compute::ResidentExpert {
 public:
  [[nodiscard]] std::size_t bytes() const override { return 10; }
};

work::HoldingRow row_of(LayerIndex layer, std::optional<ExpertIndex> expert, BlobHash hash) {
  work::HoldingRow row{.layer = {"m", layer}, .expert = expert};
  row.hash = hash;
  row.facts.resident_bytes = 10;
  return row;
}

template <typename T>
std::vector<T> sent(const Outbox& out) {
  std::vector<T> found;
  for (const Action& action : out) {
    if (const auto* one = std::get_if<T>(&action)) found.push_back(*one);
  }
  return found;
}

template <typename Op>
JobId job_of(const Outbox& out) {
  for (const Store& store : sent<Store>(out)) {
    if (std::holds_alternative<Op>(store.op)) return store.id;
  }
  ADD_FAILURE() << "no such operation";
  return JobId{};
}

class Streamed final : public compute::ResidentExpert {
 public:
  explicit Streamed(bool is_readable) : is_readable_(is_readable) {}

  [[nodiscard]] std::size_t bytes() const override { return 20; }

  [[nodiscard]] bool is_streamed() const override { return true; }

  [[nodiscard]] bool is_readable() const override { return is_readable_; }

 private:
  bool is_readable_;
};

TEST(DamagedBlobs, OneThatCouldNotBeReadWhileItRanIsCheckedAndWithdrawn) {
  work::JobIds ids;
  Holder holder({.memory_budget_bytes = 100, .background_reads_max = 0}, ids);
  Outbox out;
  work::HoldingRow row = row_of(0, ExpertIndex{0}, kShared);
  row.facts.resident_bytes = 200;
  holder.on_index({row}, out);
  out.clear();
  ASSERT_TRUE(holder.acquire(LeaseId{1}, {"m", 0}, {0}, out));
  holder.on_store_done(job_of<work::OpenBlob>(out), work::StoreOutput(work::OpenedBlob{}), out);
  work::AdmittedExpert admitted{.resident = std::make_shared<Streamed>(false), .hash = kShared};
  admitted.facts.resident_bytes = 200;
  holder.on_job_done(sent<work::Run>(out).at(0).id, work::JobOutput(admitted), out);
  ASSERT_EQ(sent<ExpertReady>(out).size(), 1U);
  out.clear();
  holder.release_all(LeaseId{1}, out);
  EXPECT_EQ(sent<BlobDamaged>(out).size(), 1U);
  const JobId quarantine = job_of<work::QuarantineBlob>(out);
  out.clear();
  holder.on_store_done(quarantine, work::StoreOutput(work::Removed{true}), out);
  ASSERT_EQ(sent<ExpertChanged>(out).size(), 1U);
  EXPECT_EQ(sent<ExpertChanged>(out)[0].change, Change::withdrawn);
  EXPECT_FALSE(holder.expert({"m", 0, 0}).has_value());
}

/// A holder whose one expert is brought in from disk, or is not, again and again.
struct Reads {
  work::JobIds ids;
  Holder holder;
  Outbox out;
  std::uint64_t lease = 0;

  explicit Reads(std::uint64_t budget = 1000)
      : holder({.memory_budget_bytes = budget, .background_reads_max = 0}, ids) {
    work::HoldingRow row = row_of(0, ExpertIndex{0}, kShared);
    row.facts.resident_bytes = 60;
    holder.on_index({row}, out);
  }

  /// Asked for, and read: what the job then says of it.
  void read(const work::JobResult& result) {
    out.clear();
    ASSERT_TRUE(holder.acquire(LeaseId{++lease}, {"m", 0}, {0}, out));
    const work::ReadBytes bytes{BufferRef::allocate(10), kShared};
    const JobId id = job_of<work::ReadBlob>(out);
    holder.on_store_done(id, work::StoreOutput(bytes), out);
    const JobId job = sent<work::Run>(out).at(0).id;
    out.clear();
    holder.on_job_done(job, result, out);
  }

  void read_well() {
    work::AdmittedExpert admitted{.resident = std::make_shared<Resident>(), .hash = kShared};
    admitted.facts.resident_bytes = 60;
    read(work::JobOutput(admitted));
    ASSERT_EQ(sent<ExpertReady>(out).size(), 1U);
    // To disk again.
    holder.release_all(LeaseId{lease}, out);
    holder.set_memory_budget(1, out);
    holder.set_memory_budget(1000, out);
  }

  void read_badly() {
    read(fail(ErrorCode::runtime, "", "safetensors parse error: too short"));
    ASSERT_EQ(sent<ExpertUnavailable>(out).size(), 1U);
  }
};

TEST(DamagedBlobs, OneThatWasGoodOnceAndCannotBeUsedNowIsCheckedByTheStore) {
  Reads world;
  world.read_well();
  world.read_badly();
  EXPECT_EQ(sent<BlobDamaged>(world.out).size(), 1U);
  const JobId quarantine = job_of<work::QuarantineBlob>(world.out);
  world.out.clear();
  world.holder.on_store_done(quarantine, work::StoreOutput(work::Removed{true}), world.out);
  EXPECT_FALSE(world.holder.expert({"m", 0, 0}).has_value());
}

TEST(Reads, OfABlobThatIsMuchLargerThanItsExpertGoBySlicesWithinWhatIsReserved) {
  work::JobIds ids;
  Holder holder({.memory_budget_bytes = 1000, .background_reads_max = 0}, ids);
  Outbox out;
  work::HoldingRow row = row_of(0, ExpertIndex{0}, kShared);
  row.facts.resident_bytes = 60;
  holder.on_index({row}, out);
  out.clear();
  ASSERT_TRUE(holder.acquire(LeaseId{1}, {"m", 0}, {0}, out));
  const work::Store store = sent<work::Store>(out).at(0);
  const auto& read = std::get<work::ReadBlob>(store.op);
  EXPECT_EQ(read.whole_bytes_max, 60 + wire::kStreamedHeaderBytesMax);
  EXPECT_EQ(holder.bytes_in_use(), 120U);
  out.clear();
  holder.on_store_done(store.id, work::StoreOutput(work::OpenedBlob{}), out);
  const auto admit = std::get<work::AdmitExpert>(sent<work::Run>(out).at(0).job);
  EXPECT_EQ(admit.memory_bytes_max, 120U);
  EXPECT_FALSE(admit.held_bytes_max.has_value());
}

TEST(CheckedBlobs, AreHashedAgainWhereTheirFileIsAnotherSince) {
  for (const bool is_by_slices : {false, true}) {
    work::JobIds ids;
    Holder holder({.memory_budget_bytes = 100, .background_reads_max = 0}, ids);
    Outbox out;
    work::HoldingRow row = row_of(0, ExpertIndex{0}, kShared);
    row.facts.resident_bytes = is_by_slices ? 200 : 40;
    holder.on_index({row}, out);
    std::uint64_t lease = 0;
    const auto is_taken_as_it_is = [&](work::FileMark file) {
      out.clear();
      EXPECT_TRUE(holder.acquire(LeaseId{++lease}, {"m", 0}, {0}, out));
      if (is_by_slices) {
        holder.on_store_done(job_of<work::OpenBlob>(out),
                             work::StoreOutput(work::OpenedBlob{nullptr, file}), out);
      } else {
        const work::ReadBytes bytes{.bytes = BufferRef::allocate(10), .file = file};
        holder.on_store_done(job_of<work::ReadBlob>(out), work::StoreOutput(bytes), out);
      }
      const auto run = sent<work::Run>(out).at(0);
      work::AdmittedExpert admitted{.resident = std::make_shared<Resident>(), .hash = kShared};
      if (is_by_slices) admitted.resident = std::make_shared<Streamed>(true);
      admitted.facts = row.facts;
      holder.on_job_done(run.id, work::JobOutput(admitted), out);
      holder.release_all(LeaseId{lease}, out);
      holder.set_memory_budget(1, out);  // to disk
      holder.set_memory_budget(100, out);
      return std::get<work::AdmitExpert>(run.job).is_checked;
    };
    EXPECT_FALSE(is_taken_as_it_is(5)) << "the first use of this life";
    EXPECT_TRUE(is_taken_as_it_is(5));
    EXPECT_FALSE(is_taken_as_it_is(6)) << "another file";
    EXPECT_TRUE(is_taken_as_it_is(6));
    EXPECT_FALSE(is_taken_as_it_is(5));
  }
}

TEST(CheckedBlobs, OfLoadsAreThoseOfTheFileThatWasReadAndIsThereWhenTheRowIs) {
  for (const work::FileMark saved : {5U, 6U}) {
    work::JobIds ids;
    Holder holder({.memory_budget_bytes = 100, .background_reads_max = 0}, ids);
    Outbox out;
    const LoadSource source{.uri_hash = kShared, .is_inline = false, .stored_bytes = 10};
    ASSERT_TRUE(holder.load_expert(RequestId{1}, {"m", 0, 0}, source, out));
    const work::ReadBytes bytes{.bytes = BufferRef::allocate(10), .hash = kShared, .file = 5};
    holder.on_store_done(job_of<work::ReadBlob>(out), work::StoreOutput(bytes), out);
    work::AdmittedExpert admitted{.resident = std::make_shared<Resident>(), .hash = kShared};
    admitted.facts.resident_bytes = 10;
    holder.on_job_done(sent<work::Run>(out).at(0).id, work::JobOutput(admitted), out);
    holder.on_store_done(job_of<work::SaveHolding>(out), work::StoreOutput(work::Saved{saved}),
                         out);
    holder.set_memory_budget(1, out);
    holder.set_memory_budget(100, out);
    out.clear();
    ASSERT_TRUE(holder.acquire(LeaseId{1}, {"m", 0}, {0}, out));
    const auto read = std::get<work::ReadBlob>(sent<Store>(out).at(0).op);
    EXPECT_EQ(read.wants_hash, saved != 5);
  }
}

TEST(Reads, WhatNeedsMoreThanItsRowSaysIsReadAgainByThatOnce) {
  work::JobIds ids;
  Holder holder({.memory_budget_bytes = 100, .background_reads_max = 0}, ids);
  Outbox out;
  holder.on_index({row_of(0, ExpertIndex{0}, kShared)}, out);
  ASSERT_TRUE(holder.acquire(LeaseId{1}, {"m", 0}, {0}, out));
  const auto read = [&](std::uint64_t needs, std::uint64_t streamed) {
    const JobId id = job_of<work::ReadBlob>(out);
    out.clear();
    holder.on_store_done(id, work::StoreOutput(work::ReadBytes{BufferRef::allocate(10), kShared}),
                         out);
    const auto run = sent<work::Run>(out).at(0);
    const std::uint64_t most = std::get<work::AdmitExpert>(run.job).held_bytes_max.value();
    work::AdmittedExpert admitted{.resident = nullptr, .hash = kShared};
    if (needs <= most) admitted.resident = std::make_shared<Resident>();
    admitted.facts.resident_bytes = needs;
    admitted.stream_bytes_min = streamed;
    out.clear();
    holder.on_job_done(run.id, work::JobOutput(admitted), out);
    return most;
  };
  EXPECT_EQ(read(45, 20), 10U);
  EXPECT_EQ(read(45, 20), 45U);
  EXPECT_EQ(sent<ExpertReady>(out).size(), 1U);
  EXPECT_EQ(holder.counters().memory_bytes, 45U);
}

TEST(Reads, WhatCouldNeverBeUsedHereIsRefusedToWhoeverWantsItWithTheNumbers) {
  work::JobIds ids;
  Holder holder({.memory_budget_bytes = 100, .background_reads_max = 0}, ids);
  Outbox out;
  holder.on_index({row_of(0, ExpertIndex{0}, kShared)}, out);
  ASSERT_TRUE(holder.acquire(LeaseId{1}, {"m", 0}, {0}, out));
  holder.on_store_done(job_of<work::ReadBlob>(out),
                       work::StoreOutput(work::ReadBytes{BufferRef::allocate(10), kShared}), out);
  work::AdmittedExpert admitted{.resident = nullptr, .hash = kShared};
  admitted.facts.resident_bytes = 300;
  admitted.stream_bytes_min = 70;
  const JobId job = sent<work::Run>(out).at(0).id;
  out.clear();
  holder.on_job_done(job, work::JobOutput(admitted), out);
  ASSERT_EQ(out.size(), 1U);
  const std::string message = sent<ExpertUnavailable>(out).at(0).error.message();
  EXPECT_NE(message.find("300"), std::string::npos) << message;
  EXPECT_NE(message.find("70"), std::string::npos) << message;
}

TEST(DamagedBlobs, WholeOneIsCheckedByTheStoreOnceAndHashedAtTheNextRead) {
  Reads world;
  world.read_well();
  world.read_badly();
  const JobId quarantine = job_of<work::QuarantineBlob>(world.out);
  world.holder.on_store_done(quarantine, work::StoreOutput(work::Removed{false}), world.out);
  EXPECT_TRUE(world.holder.expert({"m", 0, 0}).has_value());
  world.out.clear();
  ASSERT_TRUE(world.holder.acquire(LeaseId{9}, {"m", 0}, {0}, world.out));
  const auto stores = sent<Store>(world.out);
  ASSERT_EQ(stores.size(), 1U);
  EXPECT_TRUE(std::get<work::ReadBlob>(stores[0].op).wants_hash);
}

TEST(DamagedBlobs, OneThatThisBuildCannotUseStaysAndIsSaidOnceUntilItIsReadWell) {
  Reads world;
  world.read_badly();
  EXPECT_EQ(sent<BlobDamaged>(world.out).size(), 1U);
  EXPECT_TRUE(sent<Store>(world.out).empty());
  world.read_badly();
  EXPECT_TRUE(sent<BlobDamaged>(world.out).empty());
  EXPECT_TRUE(sent<Store>(world.out).empty());
  world.read_well();
  world.read_badly();
  EXPECT_EQ(sent<BlobDamaged>(world.out).size(), 1U);
}

TEST(DamagedBlobs, EveryHoldingOfOneIsWithdrawnInMemoryOrNot) {
  work::JobIds ids;
  Holder holder({.memory_budget_bytes = 1000, .background_reads_max = 0}, ids);
  Outbox out;
  holder.on_index({row_of(0, ExpertIndex{0}, kShared), row_of(0, ExpertIndex{1}, BlobHash{8}),
                   row_of(1, ExpertIndex{0}, kShared), row_of(2, ExpertIndex{5}, kShared)},
                  out);
  out.clear();
  ASSERT_TRUE(holder.acquire(LeaseId{1}, {"m", 2}, {5}, out));
  holder.on_store_done(job_of<work::ReadBlob>(out),
                       work::StoreOutput(work::ReadBytes{BufferRef::allocate(10), kShared}), out);
  work::AdmittedExpert admitted{.resident = std::make_shared<Resident>(), .hash = kShared};
  admitted.facts.resident_bytes = 10;
  holder.on_job_done(sent<work::Run>(out).at(0).id, work::JobOutput(admitted), out);
  ASSERT_TRUE(holder.expert({"m", 2, 5})->in_memory);
  out.clear();
  ASSERT_TRUE(holder.acquire(LeaseId{2}, {"m", 0}, {0}, out));
  const JobId read = job_of<work::ReadBlob>(out);
  out.clear();
  holder.on_store_done(read, fail(ErrorCode::io, "", "hash mismatch"), out);
  const JobId quarantine = job_of<work::QuarantineBlob>(out);
  out.clear();
  holder.on_store_done(quarantine, work::StoreOutput(work::Removed{true}), out);
  std::set<ExpertKey> withdrawn;
  for (const ExpertChanged& change : sent<ExpertChanged>(out)) {
    EXPECT_EQ(change.change, Change::withdrawn);
    withdrawn.insert(change.key);
  }
  EXPECT_EQ(withdrawn, (std::set<ExpertKey>{{"m", 0, 0}, {"m", 1, 0}, {"m", 2, 5}}));
  EXPECT_FALSE(holder.expert({"m", 1, 0}));
  EXPECT_TRUE(holder.expert({"m", 0, 1}));
}

TEST(DamagedBlobs, LoadOfOneByUriPutsItOutOfTheWayAndSaysSo) {
  for (const bool is_unreadable : {true, false}) {
    work::JobIds ids;
    Holder holder({.memory_budget_bytes = 1000}, ids);
    Outbox out;
    const LoadSource source{.uri_hash = kShared, .is_inline = false, .stored_bytes = 10};
    ASSERT_TRUE(holder.load_expert(RequestId{1}, {"m", 0, 0}, source, out));
    const JobId read = job_of<work::ReadBlob>(out);
    out.clear();
    const Error error{ErrorCode::io, "", "hash mismatch"};
    if (is_unreadable) {
      holder.on_store_done(read, tl::unexpected(error), out);
    } else {
      const work::ReadBytes bytes{BufferRef::allocate(10), BlobHash{1}};
      holder.on_store_done(read, work::StoreOutput(bytes), out);
      const JobId job = sent<work::Run>(out).at(0).id;
      out.clear();
      holder.on_job_done(job, tl::unexpected(error), out);
    }
    job_of<work::QuarantineBlob>(out);
    const auto loaded = sent<ExpertLoaded>(out);
    ASSERT_EQ(loaded.size(), 1U);
    EXPECT_FALSE(loaded[0].status);
    EXPECT_TRUE(loaded[0].is_blob_lost);
  }
}

TEST(DamagedBlobs, FailedLoadOfBytesThatWereSentTouchesNoBlob) {
  work::JobIds ids;
  Holder holder({.memory_budget_bytes = 1000}, ids);
  Outbox out;
  const LoadSource source{.blob = BufferRef::allocate(10), .uri_hash = kShared};
  ASSERT_TRUE(holder.load_expert(RequestId{1}, {"m", 0, 0}, source, out));
  const JobId job = sent<work::Run>(out).at(0).id;
  out.clear();
  holder.on_job_done(job, fail(ErrorCode::io, "", "hash mismatch"), out);
  EXPECT_TRUE(sent<work::Store>(out).empty());
  EXPECT_FALSE(sent<ExpertLoaded>(out).at(0).is_blob_lost);
}

}  // namespace
}  // namespace tenzro::holder
