// What a checkpoint over HTTP costs: a small server of this program on loopback, and curl beside
// it.
//
// usage: source_bench [--json FILE] [--quick] [--folder FOLDER]
//
// Rows:
//   fetch   256 MiB in reads of 32 MiB, two at a time, as a prepare job reads experts; MB/s. Beside
//   it
//           the curl program with the same server, one connection: into a file that is in memory,
//           and into /dev/null, where it keeps nothing
//   memory  a whole layer of 12 experts of 84 MiB (BF16, 7168 x 2048) to Q8_0: how far the resident
//           memory of this process rises, server included; MiB. Target: 512 MiB and three experts
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <malloc.h>
#include <unistd.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/exec/loop.hpp"
#include "tenzro/http/client.hpp"
#include "tenzro/tensor/safetensors.hpp"

#include "bench_node.hpp"
#include "report.hpp"
#include "source_reader.hpp"
#include "support/hub_server.hpp"

namespace {

using namespace tenzro;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFileBytes = 256ULL << 20U;
constexpr std::uint64_t kReadBytes = 32ULL << 20U;
constexpr std::size_t kReadsAtOnce = 2;
constexpr std::uint32_t kHidden = 7168;
constexpr std::uint32_t kFfn = 2048;
constexpr std::uint32_t kExperts = 12;

/// Reads the file once, from a loop of its own.
class Fetch {
 public:
  explicit Fetch(const std::string& url)
      : reader_(*prepare::SourceAddress::parse(url, prepare::PlainHttp::loopback_only), {}, jobs_,
                calls_, prng_) {
    thread_ = std::thread([this] { loop_.run(); });
    post([this] { client_ = std::make_unique<http::Client>(loop_); }).wait();
  }

  ~Fetch() {
    post([this] { client_.reset(); }).wait();
    loop_.stop();
    thread_.join();
  }

  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;

  void run() {
    post([this] {
      next_ = 0;
      for (std::size_t i = 0; i < kReadsAtOnce; ++i) read_next();
    }).wait();
    done_.get_future().wait();
    done_ = {};
  }

 private:
  std::future<void> post(const std::function<void()>& task) {
    auto promise = std::make_shared<std::promise<void>>();
    loop_.post([task, promise] {
      task();
      promise->set_value();
    });
    return promise->get_future();
  }

  void read_next() {
    if (next_ >= kFileBytes) return;
    prepare::Outbox out;
    reader_.read(loop_.now(), {"file", next_, kReadBytes, false}, out);
    next_ += kReadBytes;
    ++left_;
    take(std::move(out));
  }

  void take(prepare::Outbox out) {
    for (prepare::Action& action : out) {
      auto& download = std::get<work::Download>(action);
      client_->download({.url = download.url,
                         .headers = {},
                         .offset = download.offset,
                         .buffer = download.buffer,
                         .room = download.room,
                         .uses_proxy = false},
                        [this, id = download.id](const work::Downloaded& downloaded) {
                          prepare::Outbox more;
                          reader_.on_downloaded(loop_.now(), id, downloaded, more);
                          take(std::move(more));
                          settle();
                        });
    }
  }

  void settle() {
    for (const prepare::ReadDone& read : reader_.take_done()) {
      if (!read.bytes) {
        std::fprintf(stderr, "source_bench: %s\n", read.bytes.error().message().c_str());
        std::exit(1);
      }
      --left_;
      read_next();
      if (left_ == 0) done_.set_value();
    }
  }

  exec::Loop loop_;
  std::unique_ptr<http::Client> client_;
  work::JobIds jobs_;
  work::CallIds calls_;
  Prng prng_{3};
  prepare::SourceReader reader_;
  std::uint64_t next_ = 0;
  std::size_t left_ = 0;
  std::promise<void> done_;
  std::thread thread_;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// MB/s as curl itself says.
double curl_rate(const std::string& url, const std::string& to) {
  const std::string line = "curl -s -o " + to + " -w '%{speed_download}' " + url + "/file";
  FILE* const pipe = ::popen(line.c_str(), "r");
  char text[64] = {};
  if (pipe == nullptr || std::fgets(text, sizeof text, pipe) == nullptr) std::exit(1);
  ::pclose(pipe);
  return std::strtod(text, nullptr) / 1e6;
}

void write_random(const std::filesystem::path& path) {
  Prng prng(1);
  std::vector<std::uint64_t> words(1U << 17U);
  std::ofstream out(path, std::ios::binary);
  for (std::uint64_t done = 0; done < kFileBytes; done += words.size() * sizeof(words[0])) {
    for (std::uint64_t& word : words) word = prng.next();
    out.write(reinterpret_cast<const char*>(words.data()),
              static_cast<std::streamsize>(words.size() * sizeof(words[0])));
  }
}

/// A layer of zeros, whose file takes no room on the disk.
void write_checkpoint(const std::filesystem::path& folder) {
  std::ofstream(folder / "config.json")
      << R"({"model_type":"qwen3_moe","hidden_size":)" << kHidden << R"(,"moe_intermediate_size":)"
      << kFfn << R"(,"num_experts":)" << kExperts
      << R"(,"num_experts_per_tok":2,"num_hidden_layers":1,"norm_topk_prob":true})";
  std::string header = "{";
  std::uint64_t at = 0;
  const auto add = [&](const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    const std::uint64_t end = at + rows * cols * 2;
    header += (header.size() > 1 ? "," : "") + ("\"model.layers.0.mlp." + name) +
              R"(.weight":{"dtype":"BF16","shape":[)" + std::to_string(rows) + "," +
              std::to_string(cols) + R"(],"data_offsets":[)" + std::to_string(at) + "," +
              std::to_string(end) + "]}";
    at = end;
  };
  add("gate", kExperts, kHidden);
  for (std::uint32_t e = 0; e < kExperts; ++e) {
    const std::string expert = "experts." + std::to_string(e) + ".";
    add(expert + "gate_proj", kFfn, kHidden);
    add(expert + "up_proj", kFfn, kHidden);
    add(expert + "down_proj", kHidden, kFfn);
  }
  header += "}";
  const std::filesystem::path path = folder / "model.safetensors";
  {
    std::ofstream out(path, std::ios::binary);
    const std::uint64_t length = header.size();
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << header;
  }
  std::filesystem::resize_file(path, sizeof(std::uint64_t) + header.size() + at);
}

/// "VmHWM" or "VmRSS" of this process, in MiB.
double memory_mib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stod(line.substr(name.size() + 1)) / 1024;
  }
  return 0;
}

double job_memory(const std::filesystem::path& folder, const std::string& url) {
  bench::BenchNode node({.data_dir = folder / "node", .bootstrap = {}, .threads = 2});
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins here
  const double before = memory_mib("VmRSS:");
  const auto type = tensor::WeightType::q8_0;
  const auto started = std::get<rpc::PrepareStartedAnswer>(
      node.call(rpc::PrepareExpertsCall{.model = "bench",
                                        .layer = 0,
                                        .quant = rpc::QuantPlan{type, type, type, "\"q8_0\""},
                                        .source = url}));
  rpc::PrepareStatusAnswer status;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    status = std::get<rpc::PrepareStatusAnswer>(node.call(rpc::PrepareStatusCall{started.job_id}));
  } while (status.state == rpc::PrepareState::running);
  if (status.state != rpc::PrepareState::completed) {
    std::fprintf(stderr, "source_bench: %s\n", status.error.value_or("").c_str());
    std::exit(1);
  }
  return memory_mib("VmHWM:") - before;
}

}  // namespace

int main(int argc, char** argv) {
  std::string json;
  std::size_t samples = 9;
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) samples = 3;
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) json = argv[++i];
    if (std::strcmp(argv[i], "--folder") == 0 && i + 1 < argc) folder = argv[++i];
  }
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);  // as the daemon has it
  folder /= "tenzro-source-bench";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  write_random(folder / "file");
  write_checkpoint(folder);
  std::vector<double> ours;
  std::vector<double> curl;
  std::vector<double> dropped;
  std::vector<double> memory;
  {
    const testing::HubServer server(folder);
    Fetch fetch(server.url());
    fetch.run();  // the file comes into the system's memory
    for (std::size_t i = 0; i < samples; ++i) {
      const Clock::time_point begin = Clock::now();
      fetch.run();
      ours.push_back(static_cast<double>(kFileBytes) / 1e6 / seconds_since(begin));
      dropped.push_back(curl_rate(server.url(), "/dev/null"));
      const std::string kept = "/dev/shm/tenzro-source-bench-" + std::to_string(::getpid());
      curl.push_back(curl_rate(server.url(), kept));
      std::filesystem::remove(kept);
    }
    memory.push_back(job_memory(folder, server.url()));
  }
  std::filesystem::remove_all(folder);
  const double expert_mib = 3.0 * kHidden * kFfn * 2 / (1U << 20U);
  std::vector<bench::Row> rows = {
      bench::make_row("fetch 256 MiB", "curl, kept", 1, "MB/s", curl),
      bench::make_row("fetch 256 MiB", "curl, dropped", 1, "MB/s", dropped),
      bench::make_row("fetch 256 MiB", "ours", 1, "MB/s", ours),
      bench::make_row("memory of a layer", "ours", 2, "MiB", memory, 512 + 3 * expert_mib)};
  rows[2].target = 0.9 * rows[0].value;
  for (const bench::Row& row : rows) bench::print(row);
  return json.empty() || bench::write_json(json, rows) ? 0 : 1;
}
