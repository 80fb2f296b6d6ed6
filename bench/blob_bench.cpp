// What a blob costs to bring here from another node: tenzro/blob/1 over loopback, both stores on
// disk.
//
// usage: blob_bench [--json FILE] [--quick] [--folder FOLDER]
//
// Two nodes in this process. Rows, each of 64 MiB:
//   publish   a node takes the bytes: hashed, written, synced. What the disk and the hash allow
//   fetch     the other node asks for the blob by its URI: found, transferred in ranges, written,
//             synced, checked against its name, read back
//   again     the same call when the blob is there already: the reading back alone
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"
#include "tenzro/wire/uri.hpp"

#include "bench_node.hpp"
#include "report.hpp"

namespace {

using namespace tenzro;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlobBytes = 64U << 20U;

BufferRef random_blob(std::uint64_t seed) {
  Prng prng(seed);
  BufferRef blob = BufferRef::allocate(kBlobBytes);
  for (std::uint64_t& word : blob.mutable_as<std::uint64_t>()) word = prng.next();
  return blob;
}

/// MB/s of one call that moves a blob.
template <typename Call>
double rate_of(const Call& call) {
  const Clock::time_point begin = Clock::now();
  call();
  return static_cast<double>(kBlobBytes) / 1e6 /
         std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Until the node knows the other's addresses.
void wait_for_two(bench::BenchNode& node) {
  using Answer = rpc::ListProvidersAnswer;
  while (std::get<Answer>(node.call(rpc::ListProvidersCall{})).providers.size() < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

struct Rates {
  std::vector<double> publish;
  std::vector<double> fetch;
  std::vector<double> again;
};

void measure(bench::BenchNode& source, bench::BenchNode& sink, std::size_t count, Rates& rates) {
  for (std::size_t i = 0; i < count; ++i) {
    const BufferRef blob = random_blob(i + 1);
    rpc::PublishBlobAnswer published;
    const double publish = rate_of([&] {
      published = std::get<rpc::PublishBlobAnswer>(source.call(rpc::PublishBlobCall{blob}));
    });
    const rpc::FetchBlobCall call{wire::format_blob_uri(published.hash) + "?n=" + source.id()};
    const double fetch = rate_of([&] { sink.call(call); });
    const double again = rate_of([&] { sink.call(call); });
    if (i == 0) continue;  // dials
    rates.publish.push_back(publish);
    rates.fetch.push_back(fetch);
    rates.again.push_back(again);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  std::size_t samples = 13;
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) samples = 6;
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) json = argv[++i];
    if (std::strcmp(argv[i], "--folder") == 0 && i + 1 < argc) folder = argv[++i];
  }
  folder /= "tenzro-blob-bench";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  Rates rates;
  {
    bench::BenchNode source({.data_dir = folder / "source"});
    bench::BenchNode sink({.data_dir = folder / "sink", .bootstrap = {source.entry()}});
    wait_for_two(sink);
    measure(source, sink, samples, rates);
  }
  std::filesystem::remove_all(folder);
  const std::vector<bench::Row> rows = {
      bench::make_row("publish 64 MiB", "ours", 1, "MB/s", rates.publish),
      bench::make_row("fetch 64 MiB", "ours", 1, "MB/s", rates.fetch),
      bench::make_row("fetch again", "ours", 1, "MB/s", rates.again)};
  for (const bench::Row& row : rows) bench::print(row);
  return json.empty() || bench::write_json(json, rows) ? 0 : 1;
}
