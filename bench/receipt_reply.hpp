#pragma once
/// \file
/// A reply over `tenzro/exec/1` as a holder signs and a router verifies it, without a node.
///
/// Token t and choice k go to expert 5 (t + k) mod 16, so that a top-1 of many tokens comes to all
/// sixteen and a top-8 of one to eight.
#include <cstdint>
#include <vector>

#include "tenzro/compute/backend.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/receipts/receipt_set.hpp"

namespace tenzro::bench {

/// In [-1, 1], the same at every call.
[[nodiscard]] std::vector<float> random_values(std::size_t count);

class ReceiptReply {
 public:
  static constexpr std::uint32_t kWidth = 2048;

  ReceiptReply(std::uint32_t tokens, std::uint32_t top_k, receipts::CarrierKind kind);
  ReceiptReply(const ReceiptReply&) = delete;
  ReceiptReply& operator=(const ReceiptReply&) = delete;

  /// The holder's side, on this thread.
  [[nodiscard]] receipts::ReceiptSet make();
  /// The router's.
  [[nodiscard]] bool verify(const receipts::ReceiptSet& set);

 private:
  std::vector<std::uint32_t> tokens_;
  std::vector<float> values_;
  std::vector<std::byte> carrier_;
  std::vector<std::vector<std::uint32_t>> rows_;
  std::vector<receipts::SetBatch> batches_;
  receipts::SetExecution execution_;
  crypto::KeyPair key_ = crypto::KeyPair::from_seed({1});
  compute::SerialExecutor executor_;
};

}  // namespace tenzro::bench
