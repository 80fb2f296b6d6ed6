#include "batch_hashes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <map>
#include <string_view>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256_many.hpp"
#include "tenzro/receipts/commitment.hpp"

#include "row_passes.hpp"

namespace tenzro::receipts {
namespace {

using crypto::Sha256Job;
using crypto::Sha256Message;

/// Below this many output values a second thread costs more than it saves.
constexpr std::size_t kParallelValuesMin = 1U << 16U;

/// The rows of a request that one expert sees.
class InputMessage final : public Sha256Message {
 public:
  InputMessage(const SetExecution& execution, std::span<const std::uint32_t> rows)
      : carrier_(as_u8(execution.carrier)),
        stride_(carrier_.size() / execution.tokens.size()),
        rows_(rows) {
    constexpr std::string_view kTitle = "tenzro/moe/carrier";
    static_assert(kTitle.size() + 1 == kHeadBytes);
    std::copy(kTitle.begin(), kTitle.end(), head_.begin());
    head_.back() = static_cast<std::uint8_t>(execution.carrier_kind);
  }

  [[nodiscard]] std::size_t bytes() const { return rows_.size() * stride_; }

  [[nodiscard]] std::span<const std::uint8_t> next() override {
    if (!is_begun_) {
      is_begun_ = true;
      return head_;
    }
    if (at_ == rows_.size()) return {};
    std::size_t end = at_ + 1;  // neighbours at once
    while (end < rows_.size() && rows_[end] == rows_[end - 1] + 1) ++end;
    const auto piece = carrier_.subspan(rows_[at_] * stride_, (end - at_) * stride_);
    at_ = end;
    return piece;
  }

 private:
  static constexpr std::size_t kHeadBytes = 19;

  std::span<const std::uint8_t> carrier_;
  std::size_t stride_;
  std::span<const std::uint32_t> rows_;
  std::array<std::uint8_t, kHeadBytes> head_{};
  std::size_t at_ = 0;
  bool is_begun_ = false;
};

/// The rows that came out of one expert, as bf16.
class RowsMessage final : public Sha256Message {
 public:
  RowsMessage(std::span<const float> values, std::uint32_t d_model) : values_(values) {
    TENZRO_ASSERT(d_model != 0 && values.size() % d_model == 0);
    append_text(head_, "tenzro/moe/rows");
    append_u32_le(head_, static_cast<std::uint32_t>(values.size() / d_model));
    append_u32_le(head_, d_model);
  }

  [[nodiscard]] std::size_t bytes() const { return values_.size() * sizeof(std::uint16_t); }

  [[nodiscard]] std::span<const std::uint8_t> next() override {
    if (!is_begun_) {
      is_begun_ = true;
      return head_;
    }
    const auto some = values_.first(std::min(kChunk, values_.size()));
    values_ = values_.subspan(some.size());
    chunk_.resize(some.size());
    static_assert(std::endian::native == std::endian::little);
    best_passes().narrow(some.data(), some.size(), chunk_.data());
    return as_u8(std::as_bytes(std::span<const std::uint16_t>(chunk_)));
  }

 private:
  static constexpr std::size_t kChunk = 1024;

  std::span<const float> values_;
  std::vector<std::uint8_t> head_;
  std::vector<std::uint16_t> chunk_;  ///< empty before its turn: few are under way at a time
  bool is_begun_ = false;
};

/// The sketch of those rows, made when its turn comes.
class SketchMessage final : public Sha256Message {
 public:
  SketchMessage(const SetExecution& execution, const SetBatch& batch)
      : execution_(&execution), batch_(&batch) {}

  [[nodiscard]] std::span<const std::uint8_t> next() override {
    if (is_begun_) return {};
    is_begun_ = true;
    bytes_ = canonical_bytes_of_rows(execution_->tokens, batch_->rows, batch_->outputs,
                                     execution_->width);
    return bytes_;
  }

 private:
  const SetExecution* execution_;
  const SetBatch* batch_;
  std::vector<std::uint8_t> bytes_;
  bool is_begun_ = false;
};

/// Which batch sees the same rows first: of each batch, its index or an earlier one's.
std::vector<std::size_t> find_sources(std::span<const SetBatch> batches) {
  const auto before = [](std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  };
  std::map<std::span<const std::uint32_t>, std::size_t, decltype(before)> first(before);
  std::vector<std::size_t> sources;
  sources.reserve(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    sources.push_back(first.emplace(batches[i].rows, i).first->second);
  }
  return sources;
}

/// Every message of a set, and where its hash goes.
class Messages {
 public:
  void add(const InputMessage& message, Hash32& digest) {
    const std::size_t bytes = message.bytes();
    entries_.push_back({bytes, {&inputs_.emplace_back(message), &digest}});
  }

  void add(RowsMessage message, Hash32& digest) {
    const std::size_t bytes = message.bytes();
    entries_.push_back({bytes, {&rows_.emplace_back(std::move(message)), &digest}});
  }

  void add(SketchMessage message, Hash32& digest) {
    constexpr std::size_t kBytes = 0;  // few; the rest of its work is not hashing
    entries_.push_back({kBytes, {&sketches_.emplace_back(std::move(message)), &digest}});
  }

  /// The longest first, dealt out to `count` hands.
  [[nodiscard]] std::vector<std::vector<Sha256Job>> deal(std::size_t count) {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.bytes > b.bytes; });
    std::vector<std::vector<Sha256Job>> hands(std::min(count, entries_.size()));
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      hands[i % hands.size()].push_back(entries_[i].job);
    }
    return hands;
  }

 private:
  struct Entry {
    std::size_t bytes = 0;  ///< to be hashed, about
    Sha256Job job;
  };

  std::deque<InputMessage> inputs_;  // they stay where they are
  std::deque<RowsMessage> rows_;
  std::deque<SketchMessage> sketches_;
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<BatchHashes> hash_batches(const SetExecution& execution,
                                      std::span<const SetBatch> batches,
                                      compute::Executor& executor) {
  TENZRO_ASSERT(!execution.tokens.empty());
  const std::vector<std::size_t> sources = find_sources(batches);
  std::vector<BatchHashes> hashes(batches.size());
  Messages messages;
  std::size_t values = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const SetBatch& batch = batches[i];
    if (sources[i] == i) messages.add(InputMessage(execution, batch.rows), hashes[i].input);
    messages.add(RowsMessage(batch.outputs, execution.width), hashes[i].rows);
    messages.add(SketchMessage(execution, batch), hashes[i].commitment);
    values += batch.outputs.size();
  }
  const auto hands = messages.deal(values < kParallelValuesMin ? 1 : executor.concurrency());
  if (hands.size() == 1) {
    crypto::sha256_many(hands.front());
  } else {
    executor.parallel_for(hands.size(), [&](std::size_t i) { crypto::sha256_many(hands[i]); });
  }
  for (std::size_t i = 0; i < batches.size(); ++i) hashes[i].input = hashes[sources[i]].input;
  return hashes;
}

Hash32 hash_rows(std::span<const float> values, std::uint32_t d_model) {
  RowsMessage message(values, d_model);
  Hash32 digest{};
  const Sha256Job job{&message, &digest};
  crypto::sha256_many({&job, 1});
  return digest;
}

}  // namespace tenzro::receipts
