// What the receipts of one reply cost, on one thread: what a holder makes and a router checks.
//
// usage: receipt_bench [--json FILE] [--wall] [--rounds N]
//
// Rows of 2048 values. Medians over the rounds; processor time of the thread counts, or with --wall
// wall time.
//   hash      4 KiB by one hasher, and by `sha256_many` with one and with two messages
//   row       one row that comes back: its hash (as bf16) and its commitment
//   set       made and verified as `tenzro/exec/1` does, both carriers, and both without the
//             signatures, which are timed in the same round ("hashing"); top-1 of 1, 8 and 32
//             tokens and top-8 of 1 and 4 over 16 experts, as mesh_bench has them
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"
#include "tenzro/crypto/sha256_many.hpp"
#include "tenzro/receipts/commitment.hpp"

#include "receipt_reply.hpp"
#include "report.hpp"
#include "rounds.hpp"

namespace {

using namespace tenzro;

constexpr std::uint32_t kWidth = bench::ReceiptReply::kWidth;
/// Calls a sample, so that a sample is far longer than the clock's step.
constexpr int kCallsPerSample = 10;

/// Microseconds of one call.
double sample_of(const bench::Rounds& rounds, const std::function<void()>& work) {
  return 1e6 / kCallsPerSample * bench::seconds_of(rounds.clock, [&] {
           for (int call = 0; call < kCallsPerSample; ++call) work();
         });
}

class Program {
 public:
  explicit Program(bench::Rounds rounds) : rounds_(std::move(rounds)) {}

  void add_hash_rows() {
    const auto values = bench::random_values(kWidth);
    const auto bytes = as_u8(std::as_bytes(std::span(values).first(kWidth / 2)));
    add("hash: 4 KiB, one hasher", [&] { keep(crypto::sha256(bytes)); });
    for (const std::size_t count : {1U, 2U}) {
      add("hash: 4 KiB, sha256_many of " + std::to_string(count), [&] {
        std::vector<crypto::Sha256Text> texts(count, crypto::Sha256Text(bytes));
        std::vector<Hash32> digests(count);
        std::vector<crypto::Sha256Job> jobs;
        for (std::size_t i = 0; i < count; ++i) jobs.push_back({&texts[i], &digests[i]});
        crypto::sha256_many(jobs);
        keep(digests[0]);
      });
    }
    add("row: its hash", [&] { keep(receipts::hash_rows(values, kWidth)); });
    const std::uint32_t zero[] = {0};
    add("row: its commitment", [&] {
      keep(crypto::sha256(receipts::canonical_bytes_of_rows(zero, zero, values, kWidth)));
    });
  }

  void add_signature_rows() {
    add("signature: made", [&] { keep(key_.sign(message_)); });
    add("signature: verified", [&] { verify_alone(); });
  }

  void add_set_rows(std::uint32_t tokens, std::uint32_t top_k, receipts::CarrierKind kind) {
    bench::ReceiptReply reply(tokens, top_k, kind);
    const std::string name = "set: top-" + std::to_string(top_k) + ", " + std::to_string(tokens) +
                             " tokens, " + (kind == receipts::CarrierKind::dense ? "dense" : "q8");
    const auto set = reply.make();
    const auto make = [&] { keep(reply.make().signature); };
    const auto verify = [&] { TENZRO_ASSERT(reply.verify(set)); };
    add(name + ", made", make);
    add(name + ", verified", verify);
    std::vector<double> samples;
    samples.reserve(static_cast<std::size_t>(rounds_.count));
    for (int round = 0; round < rounds_.count; ++round) {
      const double both = sample_of(rounds_, make) + sample_of(rounds_, verify);
      samples.push_back(both - sample_of(rounds_, [&] {
                          keep(key_.sign(message_));
                          verify_alone();
                        }));
    }
    add_row(name + ", hashing of both", std::move(samples));
  }

  [[nodiscard]] int finish() const {
    return rounds_.json.empty() || bench::write_json(rounds_.json, rows_) ? 0 : 1;
  }

 private:
  template <typename Value>
  void keep(const Value& value) {
    kept_ = kept_ + value[0];  // volatile: the work is done
  }

  void verify_alone() { TENZRO_ASSERT(crypto::verify(key_.public_key(), message_, signature_)); }

  void add(const std::string& name, const std::function<void()>& work) {
    std::vector<double> samples;
    samples.reserve(static_cast<std::size_t>(rounds_.count));
    for (int round = 0; round < rounds_.count; ++round) {
      samples.push_back(sample_of(rounds_, work));
    }
    add_row(name, std::move(samples));
  }

  void add_row(const std::string& name, std::vector<double> samples) {
    rows_.push_back(bench::make_row(name, "ours", 1, "us", std::move(samples)));
    bench::print(rows_.back());
  }

  bench::Rounds rounds_;
  std::vector<bench::Row> rows_;
  crypto::KeyPair key_ = crypto::KeyPair::from_seed({1});
  /// As long as what is signed of one expert.
  std::vector<std::uint8_t> message_ = std::vector<std::uint8_t>(60, 3);
  crypto::Signature signature_ = key_.sign(message_);
  volatile unsigned kept_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Program program(bench::read_rounds(argc, argv, 200));
  program.add_hash_rows();
  program.add_signature_rows();
  for (const auto kind : {receipts::CarrierKind::q8_0, receipts::CarrierKind::dense}) {
    for (const std::uint32_t tokens : {1U, 8U, 32U}) program.add_set_rows(tokens, 1, kind);
    for (const std::uint32_t tokens : {1U, 4U}) program.add_set_rows(tokens, 8, kind);
  }
  return program.finish();
}
