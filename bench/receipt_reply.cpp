#include "receipt_reply.hpp"

#include <numeric>
#include <span>

#include "tenzro/base/prng.hpp"

namespace tenzro::bench {
namespace {

constexpr std::uint32_t kExperts = 16;
constexpr std::uint32_t kStride = 5;

}  // namespace

std::vector<float> random_values(std::size_t count) {
  Prng prng(7);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(prng.below(20001)) / 10000.0F - 1.0F;
  return values;
}

ReceiptReply::ReceiptReply(std::uint32_t tokens, std::uint32_t top_k, receipts::CarrierKind kind)
    : tokens_(tokens),
      values_(random_values(std::size_t{tokens} * top_k * kWidth)),
      rows_(kExperts) {
  std::iota(tokens_.begin(), tokens_.end(), 0U);
  const std::span<const float> hidden = std::span(values_).first(std::size_t{tokens} * kWidth);
  if (kind == receipts::CarrierKind::q8_0) {
    carrier_.resize(receipts::q8_carrier_bytes(tokens, kWidth).value());
    receipts::encode_q8_rows(hidden, kWidth, carrier_);
  } else {
    const auto bytes = std::as_bytes(hidden);
    carrier_.assign(bytes.begin(), bytes.end());
  }
  for (std::uint32_t i = 0; i < tokens * top_k; ++i) {
    rows_[(i / top_k + i % top_k) * kStride % kExperts].push_back(i / top_k);
  }
  std::size_t at = 0;
  for (ExpertIndex expert = 0; expert < kExperts; ++expert) {
    const std::size_t size = rows_[expert].size() * kWidth;
    if (size == 0) continue;
    batches_.push_back({expert, rows_[expert], std::span(values_).subspan(at, size)});
    at += size;
  }
  execution_ = {
      .model = "m", .carrier_kind = kind, .carrier = carrier_, .width = kWidth, .tokens = tokens_};
}

receipts::ReceiptSet ReceiptReply::make() {
  return receipts::make_set(key_, execution_, batches_, executor_);
}

bool ReceiptReply::verify(const receipts::ReceiptSet& set) {
  return receipts::verify_set(key_.public_key(), execution_, batches_, set, executor_).has_value();
}

}  // namespace tenzro::bench
