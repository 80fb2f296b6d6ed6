/// \file
/// Runs a fuzz target without a fuzzer: over every file of a corpus folder, the empty input and
/// seeded mutations of both. Built by every preset, so that a decoder's corpus is checked in each
/// test run.
///
///   replay_<name> [--mutations N] [--seed S] [corpus folder or file]...
///
/// A folder that does not exist counts as empty: then the mutations grow from the empty input
/// alone. When an input stops the process, its bytes are left in ./replay-crash.bin and its name is
/// printed; `replay_<name> --mutations 0 replay-crash.bin` runs it again.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// Present where a sanitizer is linked; those stop the process without a signal.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kInputBytesMax = std::size_t{1} << 20U;
constexpr std::size_t kInsertBytesMax = 16;

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t mutations = 200;  ///< of each input
  std::vector<std::string> paths;
};

struct Input {
  std::string name;
  Bytes bytes;
};

// What the crash handler reports: it may not allocate, so it finds everything here.
const Bytes* g_running = nullptr;
char g_running_name[512] = "";

void report_crash() {
  const char* const file = "replay-crash.bin";
  const auto say = [](const char* text) {
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) _exit(1);
  };
  if (g_running == nullptr) return;
  say("replay: the process stopped in ");
  say(g_running_name);
  const int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0 && write(fd, g_running->data(), g_running->size()) >= 0) {
    say("\nreplay: its bytes are in ");
    say(file);
  }
  say("\n");
}

void on_signal(int signal_number) {
  report_crash();
  // The default action follows, so that the exit status says what happened.
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

/// splitmix64: the same inputs on every machine.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }

  /// In [0, bound); 0 where bound is 0.
  std::size_t below(std::size_t bound) {
    return bound == 0 ? 0 : static_cast<std::size_t>(next() % bound);
  }

  std::uint8_t byte() { return static_cast<std::uint8_t>(next() >> 56U); }

 private:
  std::uint64_t state_;
};

enum class Edit : std::uint8_t { flip_bit, set_byte, set_word, cut, insert, copy, count };

void apply(Edit edit, Bytes& bytes, Chance& chance) {
  // Lengths and counts are where decoders go wrong, so whole words get the values at their edges.
  constexpr std::uint32_t kEdges[] = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
  const std::size_t at = chance.below(bytes.size());
  const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  switch (edit) {
    case Edit::flip_bit:
      if (!bytes.empty()) bytes[at] ^= static_cast<std::uint8_t>(1U << chance.below(8));
      return;
    case Edit::set_byte:
      if (!bytes.empty()) bytes[at] = chance.byte();
      return;
    case Edit::set_word: {
      const std::uint32_t word = kEdges[chance.below(std::size(kEdges))];
      if (bytes.size() - at >= sizeof word) std::memcpy(bytes.data() + at, &word, sizeof word);
      return;
    }
    case Edit::cut:
      bytes.erase(from, bytes.end());
      return;
    case Edit::insert: {
      Bytes noise(1 + chance.below(kInsertBytesMax));
      std::generate(noise.begin(), noise.end(), [&chance] { return chance.byte(); });
      bytes.insert(from, noise.begin(), noise.end());
      return;
    }
    case Edit::copy: {
      const std::size_t size = std::min(bytes.size() - at, 1 + chance.below(kInsertBytesMax));
      const Bytes piece(from, from + static_cast<std::ptrdiff_t>(size));
      const std::size_t to = chance.below(bytes.size() + 1);
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(to), piece.begin(), piece.end());
      return;
    }
    case Edit::count:
      return;
  }
}

Bytes mutate(Bytes bytes, Chance& chance) {
  const std::size_t edits = 1 + chance.below(4);
  for (std::size_t i = 0; i < edits; ++i) {
    apply(static_cast<Edit>(chance.below(static_cast<std::size_t>(Edit::count))), bytes, chance);
  }
  bytes.resize(std::min(bytes.size(), kInputBytesMax));
  return bytes;
}

void run(const Bytes& bytes, const std::string& name) {
  std::snprintf(g_running_name, sizeof g_running_name, "%s", name.c_str());
  g_running = &bytes;
  // An exact copy on the heap: a read past the end meets the sanitizer's red zone.
  const Bytes exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  g_running = nullptr;
}

bool read_input(const std::filesystem::path& path, std::vector<Input>& inputs) {
  std::ifstream file(path, std::ios::binary);
  Bytes bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return false;
  inputs.push_back({path.filename().string(), std::move(bytes)});
  return true;
}

/// The empty input and every file named, or found in a folder named; sorted, so that runs are
/// equal.
bool gather(const std::vector<std::string>& paths, std::vector<Input>& inputs) {
  inputs.push_back({"the empty input", {}});
  for (const std::string& path : paths) {
    std::vector<std::filesystem::path> files;
    if (std::filesystem::is_regular_file(path)) files.emplace_back(path);
    if (std::filesystem::is_directory(path)) {
      for (const auto& entry : std::filesystem::directory_iterator(path)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      if (read_input(file, inputs)) continue;
      std::fprintf(stderr, "replay: cannot read %s\n", file.c_str());
      return false;
    }
  }
  return true;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool takes_number = word == "--mutations" || word == "--seed";
    if (!takes_number) {
      options.paths.push_back(word);
      continue;
    }
    std::uint64_t& number = word == "--seed" ? options.seed : options.mutations;
    number = i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : 0;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal_number, on_signal);
  }
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(report_crash);
  std::vector<Input> inputs;
  if (!gather(options.paths, inputs)) return 2;

  Chance chance(options.seed);
  for (const Input& input : inputs) {
    run(input.bytes, input.name);
    for (std::uint64_t i = 0; i < options.mutations; ++i) {
      run(mutate(input.bytes, chance), input.name + ", mutation " + std::to_string(i) +
                                           " of seed " + std::to_string(options.seed));
    }
  }
  std::printf("replay: %zu inputs, %llu mutations of each\n", inputs.size(),
              static_cast<unsigned long long>(options.mutations));
  return 0;
}
