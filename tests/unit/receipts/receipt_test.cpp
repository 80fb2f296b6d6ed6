#include "tenzro/receipts/receipt.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tenzro/receipts/commitment.hpp"

namespace tenzro::receipts {
namespace {

/// A request for two tokens of width 4, and the honest answer to it.
struct Exchange {
  crypto::KeyPair key = crypto::KeyPair::from_seed(crypto::Seed{1});
  std::vector<std::uint32_t> tokens{3, 9};
  std::vector<float> inputs{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> outputs{0.5F, -2, 8, 1, 4, 4, -9, 0};
  ProviderAddress planned = key.address();
  Execution execution;
  Reply reply;

  Exchange() {
    execution = {.model = "qwen3-30b-a3b",
                 .layer = 3,
                 .expert = 42,
                 .token_indices = tokens,
                 .carrier_kind = CarrierKind::dense,
                 .carrier = std::as_bytes(std::span(inputs)),
                 .d_model = 4};
    reply = {.token_indices = tokens,
             .outputs = outputs,
             .receipt = make_receipt(key, execution, outputs)};
  }

  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] std::string verdict() const {
    const Status status = verify_receipt(execution, planned, reply);
    if (status) return "(accepted)";
    EXPECT_EQ(status.error().code, ErrorCode::runtime);
    EXPECT_EQ(status.error().where, "expert 3/42 receipt");
    return status.error().detail;
  }
};

TEST(Receipt, HonestReplyIsAccepted) {
  EXPECT_EQ(Exchange().verdict(), "(accepted)");
}

TEST(Receipt, MissingReceiptIsRefused) {
  Exchange exchange;
  exchange.reply.receipt.reset();
  EXPECT_EQ(exchange.verdict(), "holder returned no execution receipt");
}

TEST(Receipt, AnotherHoldersReceiptIsRefused) {
  Exchange exchange;
  exchange.planned[0] ^= 1;
  EXPECT_EQ(exchange.verdict(), "receipt bound to a different provider");
}

TEST(Receipt, OtherTokensOrOrderAreRefused) {
  const std::vector<std::vector<std::uint32_t>> others{{}, {3}, {9, 3}, {3, 8}, {3, 9, 9}};
  for (const std::vector<std::uint32_t>& other : others) {
    Exchange exchange;
    exchange.reply.token_indices = other;
    EXPECT_EQ(exchange.verdict(), "response token set differs from request");
  }
}

TEST(Receipt, OutputsOfAnotherLengthAreRefusedBeforeTheyAreRead) {
  Exchange exchange;
  exchange.outputs.pop_back();
  exchange.reply.outputs = exchange.outputs;
  EXPECT_EQ(exchange.verdict(), "output length 7 does not match 2 tokens x d_model 4");
}

TEST(Receipt, ReceiptForOtherInputsIsRefused) {
  Exchange exchange;
  exchange.inputs[7] = 8.5F;
  EXPECT_EQ(exchange.verdict(), "expert receipt: input hash mismatch");
}

TEST(Receipt, SameBytesAsAnotherCarrierAreOtherInputs) {
  Exchange exchange;
  exchange.execution.carrier_kind = CarrierKind::q8_0;
  EXPECT_EQ(exchange.verdict(), "expert receipt: input hash mismatch");
}

TEST(Receipt, OutputsThatChangedOnTheWayAreRefused) {
  Exchange exchange;
  exchange.outputs[3] = 1.25F;
  EXPECT_EQ(exchange.verdict(), "expert receipt: activation commitment mismatch");
}

TEST(Receipt, SignatureOverAnotherModelLayerOrExpertIsRefused) {
  for (int part = 0; part < 3; ++part) {
    Exchange exchange;
    Execution claimed = exchange.execution;
    if (part == 0) claimed.model = "qwen3-30b-a3c";
    if (part == 1) claimed.layer = 4;
    if (part == 2) claimed.expert = 41;
    exchange.reply.receipt = make_receipt(exchange.key, claimed, exchange.outputs);
    EXPECT_EQ(exchange.verdict(), "expert receipt: bad signature") << part;
  }
}

TEST(Receipt, StrangersKeyUnderThePlannedAddressIsRefused) {
  Exchange exchange;
  const crypto::KeyPair stranger = crypto::KeyPair::from_seed(crypto::Seed{2});
  Receipt forged = make_receipt(stranger, exchange.execution, exchange.outputs);
  forged.provider = exchange.planned;
  exchange.reply.receipt = forged;
  EXPECT_EQ(exchange.verdict(), "expert receipt: public key does not belong to the provider");
}

// Each fault added to the ones before it: the earliest check speaks.
TEST(Receipt, ChecksSpeakInTheStatedOrder) {
  Exchange exchange;
  exchange.reply.receipt->signature[0] ^= 1;
  EXPECT_EQ(exchange.verdict(), "expert receipt: bad signature");
  exchange.reply.receipt->commitment[0] ^= 1;
  EXPECT_EQ(exchange.verdict(), "expert receipt: activation commitment mismatch");
  exchange.reply.receipt->input_hash[0] ^= 1;
  EXPECT_EQ(exchange.verdict(), "expert receipt: input hash mismatch");
  const std::vector<std::uint32_t> others{3, 8};
  exchange.reply.token_indices = others;
  EXPECT_EQ(exchange.verdict(), "response token set differs from request");
  exchange.reply.receipt->provider[0] ^= 1;
  EXPECT_EQ(exchange.verdict(), "receipt bound to a different provider");
  exchange.reply.receipt.reset();
  EXPECT_EQ(exchange.verdict(), "holder returned no execution receipt");
}

}  // namespace
}  // namespace tenzro::receipts
