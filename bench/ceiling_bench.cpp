// What this machine gives at most: memory on one and two threads, and products of each kind.
//
// usage: ceiling_bench [--json FILE] [--cpu-time]
//
// Memory is 2 GiB on huge pages where allowed, read from end to end in pieces of 4 MiB by several
// loops in turn; the best is the ceiling. --cpu-time counts the thread's own processor time on one
// thread: for a machine that others share.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ceilings.hpp"
#include "contest.hpp"
#include "report.hpp"

namespace {

namespace bench = tenzro::bench;

constexpr std::size_t kMemory = std::size_t{2} << 30U;
constexpr std::size_t kPiece = std::size_t{4} << 20U;

volatile std::uint64_t sink = 0;

/// Reads the next `pieces` pieces at each call, shared by the threads of `executor`.
class Reading {
 public:
  Reading(const bench::ColdMemory& memory, bench::Reader reader,
          tenzro::compute::Executor& executor)
      : memory_(&memory), reader_(std::move(reader)), executor_(&executor) {}

  void operator()() {
    const std::size_t first = next_;
    next_ = (next_ + kPieces) % (memory_->size() / kPiece);
    executor_->parallel_for(kPieces, [&](std::size_t i) {
      sink = sink + reader_.read(memory_->data() + (first + i) * kPiece, kPiece);
    });
  }

  static constexpr std::size_t kPieces = 8;

 private:
  const bench::ColdMemory* memory_;
  bench::Reader reader_;
  tenzro::compute::Executor* executor_;
  std::size_t next_ = 0;
};

std::vector<bench::Row> measure_memory_on(tenzro::compute::Executor& executor,
                                          const bench::ColdMemory& memory, bool own_time) {
  std::vector<bench::Contestant> contestants;
  for (const bench::Reader& reader : bench::readers()) {
    contestants.push_back({reader.name, static_cast<double>(Reading::kPieces * kPiece) * 1e-9,
                           Reading(memory, reader, executor)});
  }
  const auto rates =
      hold_contest(contestants, {.clock = own_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC});
  std::vector<bench::Row> rows;
  for (std::size_t i = 0; i < rates.size(); ++i)
    rows.push_back(bench::make_row("read memory", contestants[i].path, executor.concurrency(),
                                   "GB/s", rates[i]));
  return rows;
}

std::vector<bench::Row> measure_memory(std::size_t threads, bool cpu_time) {
  const bench::ColdMemory memory(kMemory);
  if (memory.data() == nullptr) return {};
  std::vector<bench::Row> rows;
  bench::run_on_pool(threads, [&](tenzro::compute::Executor& executor) {
    rows = measure_memory_on(executor, memory, cpu_time && threads == 1);
  });
  return rows;
}

std::vector<bench::Row> measure_products(bool cpu_time) {
  std::vector<bench::Contestant> contestants;
  for (const bench::Products& kind : bench::products()) {
    if (kind.call) {
      contestants.push_back({kind.name, kind.giga, kind.call});
    } else {
      std::printf("%-34s absent on this machine\n", kind.name.c_str());
    }
  }
  const auto rates =
      hold_contest(contestants, {.clock = cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC});
  std::vector<bench::Row> rows;
  for (std::size_t i = 0; i < rates.size(); ++i)
    rows.push_back(bench::make_row("products", contestants[i].path, 1, "GOP/s", rates[i]));
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  bool cpu_time = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--cpu-time") == 0) {
      cpu_time = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: ceiling_bench [--json FILE] [--cpu-time]\n");
      return 2;
    }
  }
  std::vector<bench::Row> rows;
  for (const std::size_t threads : {1U, 2U}) {
    for (bench::Row& row : measure_memory(threads, cpu_time)) rows.push_back(std::move(row));
  }
  for (bench::Row& row : measure_products(cpu_time)) rows.push_back(std::move(row));
  for (const bench::Row& row : rows) print(row);
  if (!json.empty() && !bench::write_json(json, rows)) {
    std::fprintf(stderr, "cannot write %s\n", json.c_str());
    return 1;
  }
  return 0;
}
