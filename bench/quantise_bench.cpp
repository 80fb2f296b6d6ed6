// Quantising rows of a BF16 checkpoint on one thread, as a prepare job does it.
//
// usage: quantise_bench [--json FILE] [--wall] [--rounds N]
//
// Two questions. How near does Q8_0 come to the memory: bytes read and written a second, beside a
// memcpy of the same source in the same round (its bytes read and written too). How do Q4_K and
// Q6_K stand beside ggml's ggml_quantize_chunk over the same values, given to it as f32; configure
// with -DTENZRO_BENCH_GGML=DIR (a ggml source tree with its build, or an install prefix) for that;
// the bytes must be equal, or the program ends. Figures are medians of rounds in which both sides
// take turns. Processor time of the working thread counts, or with --wall wall time.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/tensor/dtype.hpp"

#include "report.hpp"
#include "rounds.hpp"

#ifdef TENZRO_BENCH_HAS_GGML
#include <ggml.h>
#endif

namespace {

using tenzro::tensor::DType;
using tenzro::tensor::WeightType;
namespace bench = tenzro::bench;

constexpr std::size_t kCols = 7168;
constexpr std::size_t kStreamRows = 8192;  // 112 MiB of BF16: beyond the last cache
constexpr std::size_t kSearchRows = 256;

/// Rows of small gaussian weights, as trained matrices have.
std::vector<std::byte> make_rows(std::size_t rows) {
  tenzro::Prng prng(17);
  std::vector<std::byte> bytes(rows * kCols * 2);
  std::vector<float> row(kCols);
  for (std::size_t r = 0; r < std::min<std::size_t>(rows, 64); ++r) {
    for (float& value : row) {
      float sum = 0;
      for (int i = 0; i < 6; ++i) sum += static_cast<float>(prng.below(4096)) / 4096.0F - 0.5F;
      value = sum * 0.03F;
    }
    encode_row(WeightType::bf16, row, std::span(bytes).subspan(r * kCols * 2, kCols * 2));
  }
  for (std::size_t r = 64; r < rows; ++r) {
    std::memcpy(&bytes[r * kCols * 2], &bytes[(r % 64) * kCols * 2], kCols * 2);
  }
  return bytes;
}

void encode_all(const tenzro::tensor::RowEncoder& encoder, WeightType type,
                const std::vector<std::byte>& source, std::vector<std::byte>& out) {
  const std::size_t stride = row_bytes(type, kCols);
  for (std::size_t row = 0; row * stride < out.size(); ++row) {
    encoder.encode(type, DType::bf16, std::span(source).subspan(row * kCols * 2, kCols * 2),
                   std::span(out).subspan(row * stride, stride));
  }
}

void add_ratio(std::vector<bench::Row>& rows, const std::string& name,
               const std::vector<double>& ours, const std::vector<double>& theirs, double target) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  rows.push_back(bench::make_row(name, "ratio", 1, "x", ratios, target));
}

void run_stream(const bench::Rounds& rounds, const tenzro::tensor::RowEncoder& encoder,
                std::vector<bench::Row>& rows) {
  const std::vector<std::byte> source = make_rows(kStreamRows);
  std::vector<std::byte> copy(source.size());
  std::vector<std::byte> out(kStreamRows * row_bytes(WeightType::q8_0, kCols));
  std::vector<double> ours;
  std::vector<double> copies;
  for (int round = -1; round < rounds.count; ++round) {
    const double copied = bench::seconds_of(
        rounds.clock, [&] { std::memcpy(copy.data(), source.data(), source.size()); });
    const double encoded = bench::seconds_of(
        rounds.clock, [&] { encode_all(encoder, WeightType::q8_0, source, out); });
    if (round < 0) continue;  // pages are touched, caches warm as they will be
    copies.push_back(2e-9 * static_cast<double>(source.size()) / copied);
    ours.push_back(1e-9 * static_cast<double>(source.size() + out.size()) / encoded);
  }
  rows.push_back(bench::make_row("q8_0", "ours", 1, "GB/s", ours));
  rows.push_back(bench::make_row("q8_0", "memcpy", 1, "GB/s", copies));
  add_ratio(rows, "q8_0 of memcpy", ours, copies, 0.7);
}

#ifdef TENZRO_BENCH_HAS_GGML
void quantise_with_ggml(WeightType type, const std::vector<float>& values,
                        std::vector<std::byte>& out) {
  ggml_quantize_chunk(static_cast<ggml_type>(type), values.data(), out.data(), 0,
                      static_cast<std::int64_t>(values.size() / kCols), kCols, nullptr);
}
#endif

void run_search(const bench::Rounds& rounds, const tenzro::tensor::RowEncoder& encoder,
                WeightType type, std::vector<bench::Row>& rows) {
  const std::vector<std::byte> source = make_rows(kSearchRows);
  std::vector<std::byte> out(kSearchRows * row_bytes(type, kCols));
  const double millions = 1e-6 * static_cast<double>(kSearchRows * kCols);
  const std::string name(name_of(type));
  std::vector<double> ours;
  std::vector<double> theirs;
#ifdef TENZRO_BENCH_HAS_GGML
  std::vector<float> values(kSearchRows * kCols);
  convert_to_f32(DType::bf16, source, values);
  std::vector<std::byte> expected(out.size());
#endif
  for (int round = 0; round < rounds.count; ++round) {
    ours.push_back(millions / bench::seconds_of(rounds.clock,
                                                [&] { encode_all(encoder, type, source, out); }));
#ifdef TENZRO_BENCH_HAS_GGML
    theirs.push_back(millions / bench::seconds_of(rounds.clock, [&] {
                       quantise_with_ggml(type, values, expected);
                     }));
    if (out != expected) {
      std::fprintf(stderr, "%s: bytes differ from ggml's\n", name.c_str());
      std::exit(1);
    }
#endif
  }
  rows.push_back(bench::make_row(name, "ours", 1, "M elements/s", ours));
  if (theirs.empty()) return;
  rows.push_back(bench::make_row(name, "ggml", 1, "M elements/s", theirs));
  add_ratio(rows, name + " of ggml", ours, theirs, 3);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Rounds rounds = bench::read_rounds(argc, argv, 9);
  auto backend = tenzro::kernels::make_cpu_backend({});
  if (!backend) {
    std::fprintf(stderr, "%s\n", backend.error().message().c_str());
    return 1;
  }
  const tenzro::tensor::RowEncoder& encoder = (*backend)->row_encoder();
  std::vector<bench::Row> rows;
  run_stream(rounds, encoder, rows);
  run_search(rounds, encoder, WeightType::q4_k, rows);
  run_search(rounds, encoder, WeightType::q6_k, rows);
  for (const bench::Row& row : rows) print(row);
  if (!rounds.json.empty() && !bench::write_json(rounds.json, rows)) return 1;
  return 0;
}
