#include "tier_store.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <utility>

#include "tenzro/base/prng.hpp"
#include "tenzro/crypto/blake3.hpp"
#include "tenzro/holder/holder.hpp"
#include "tenzro/store/store.hpp"

#include "support/random_expert.hpp"
#include "tier_disk.hpp"

namespace tenzro::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadBlobs = 16;
constexpr std::size_t kIndexed = 100'000;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Runs operations on a store and waits for all of them.
class StoreRunner {
 public:
  StoreRunner(const std::string& folder, std::size_t threads) : dir_(open_dir(folder, files_)) {
    auto opened = store::Store::open(dir_, {.threads = threads, .queue_max = kIndexed},
                                     [this](JobId, const work::StoreResult& result) {
                                       if (!result) ++failed_;
                                       if (--left_ == 0) done_.set_value();
                                     });
    if (!opened) std::abort();
    store_ = std::move(opened->store);
    rows_ = std::move(opened->rows);
  }

  void run(std::vector<work::StoreOp> ops) {
    done_ = {};
    left_ = ops.size();
    auto over = done_.get_future();
    std::uint64_t id = 0;
    for (work::StoreOp& op : ops) store_->submit(JobId{++id}, std::move(op));
    over.get();
    if (failed_ > 0) std::abort();
  }

  [[nodiscard]] const std::vector<work::HoldingRow>& rows() const { return rows_; }

 private:
  static store::DataDir open_dir(const std::string& folder, store::FileSystem& files) {
    auto dir = store::DataDir::open(folder, files);
    if (!dir) std::abort();
    return std::move(*dir);
  }

  store::FileSystem files_;
  store::DataDir dir_;
  std::promise<void> done_;
  std::atomic<std::size_t> left_ = 0;
  std::atomic<std::size_t> failed_ = 0;
  std::vector<work::HoldingRow> rows_;
  std::unique_ptr<store::Store> store_;  // last: its threads use what stands above
};

work::SaveHolding holding(std::size_t number) {
  work::SaveHolding save;
  save.row.layer = {"deepseek-v3", static_cast<LayerIndex>(number / 2000)};
  save.row.expert = static_cast<ExpertIndex>(number % 2000);
  save.blob = BufferRef::copy_of("blob " + std::to_string(number));
  save.row.hash = crypto::blake3(save.blob.bytes());
  save.row.facts = {.d_model = 7168, .d_ff = 2048, .resident_bytes = 5'000'000};
  return save;
}

}  // namespace

void add_reads(const std::string& folder, std::size_t samples, std::vector<Row>& rows) {
  StoreRunner runner(folder, kTierReaders);
  std::vector<work::StoreOp> writes;
  std::vector<work::StoreOp> reads;
  for (std::size_t i = 0; i < kReadBlobs; ++i) {
    const BufferRef blob =
        testing::random_expert(100 + i, kTierWidth, kTierFfn, tensor::WeightType::q8_0);
    reads.emplace_back(work::ReadBlob{.hash = crypto::blake3(blob.bytes())});
    writes.emplace_back(work::PublishBlob{blob});
  }
  runner.run(writes);
  auto files = files_below(folder + "/blobs");
  files.resize(kReadBlobs);
  double bytes = 0;
  for (const std::string& file : files)
    bytes += static_cast<double>(std::filesystem::file_size(file));
  std::vector<double> ours;
  std::vector<double> disk;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < samples; ++i) {
    for (const std::string& file : files) drop_from_cache(file);
    disk.push_back(read_rate(files, kTierReaders) / 1e6);
    for (const std::string& file : files) drop_from_cache(file);
    const Clock::time_point begin = Clock::now();
    runner.run(reads);
    ours.push_back(bytes / seconds_since(begin) / 1e6);
    ratios.push_back(ours.back() / disk.back());
  }
  rows.push_back(make_row("reads, 8 at once", "pread", 8, "MB/s", disk));
  rows.push_back(make_row("reads, 8 at once", "ours", 8, "MB/s", ours));
  rows.push_back(make_row("reads, 8 at once", "of the disk's", 8, "times", ratios, 0.9));
}

void add_index(std::vector<Row>& rows) {
  const std::string folder = "/dev/shm/tenzro-tier-bench";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  {
    StoreRunner runner(folder, 1);
    std::vector<work::StoreOp> saves;
    for (std::size_t i = 0; i < kIndexed; ++i) saves.emplace_back(holding(i));
    runner.run(std::move(saves));
  }
  const Clock::time_point begin = Clock::now();
  StoreRunner runner(folder, 1);
  work::JobIds ids;
  holder::Outbox out;
  holder::Holder held({.memory_budget_bytes = 1, .background_reads_max = 0}, ids);
  held.on_index(runner.rows(), out);
  const double restart = seconds_since(begin);
  std::vector<double> look_up;
  Prng prng(9);
  std::uint64_t found = 0;
  for (int round = 0; round < 50; ++round) {
    const Clock::time_point start = Clock::now();
    constexpr int kLookUps = 2000;
    for (int i = 0; i < kLookUps; ++i) {
      const auto number = prng.below(kIndexed);
      const auto* facts = held.facts({"deepseek-v3", static_cast<LayerIndex>(number / 2000),
                                      static_cast<ExpertIndex>(number % 2000)});
      found += facts != nullptr ? 1U : 0U;
    }
    look_up.push_back(seconds_since(start) / kLookUps * 1e9);
  }
  if (found != 100'000) std::abort();
  rows.push_back(make_row("look-up among 100,000", "ours", 1, "ns", look_up, 1000));
  rows.push_back(make_row("restart with 100,000", "ours", 1, "s", {restart}, 2));
  std::filesystem::remove_all(folder);
}

}  // namespace tenzro::bench
