// A call over tenzro/exec/1 from the router's rows to outputs it trusts, and every holder it must
// not.
#include <limits>

#include <gtest/gtest.h>

#include "holder_twin.hpp"

namespace tenzro::testing {
namespace {

using receipts::CarrierKind;
using tensor::WeightType;

struct Case {
  WeightType type = WeightType::f32;
  CarrierKind carrier = CarrierKind::dense;
  compute::Profile profile = compute::Profile::exact;
};

class Router {
 public:
  explicit Router(HolderTwin& holder, Case which = {}) : holder_(holder) {
    Prng prng(11);
    call.layer = {"qwen3-30b-a3b", 5};
    call.profile = which.profile;
    call.carrier = which.carrier;
    call.width = kWidth;
    call.input = random_rows(prng, 9, kWidth);
    // Row 0 and row 8 are nobody's.
    call.batches = {{0, {1, 3, 7}, holder.blob(0)}, {1, {2}, {}}, {2, {1, 2, 3, 4, 5, 6, 7}, {}}};
    call.nonce = {1, 2, 3};
    call.router = crypto::KeyPair::from_seed(crypto::Seed{1}).public_key();
    call.holder = holder.key().public_key();
    call.provider = holder.key().address();
  }

  [[nodiscard]] BufferRef request() {
    const auto encoded =
        work::encode_call({std::make_shared<const work::RemoteCall>(call), std::chrono::seconds(5)},
                          holder_.context());
    EXPECT_TRUE(encoded) << encoded.error().message();
    return encoded ? joined(encoded->request) : BufferRef{};
  }

  [[nodiscard]] Result<work::VerifiedReply> verify(const BufferRef& reply) {
    return work::verify_reply({std::make_shared<const work::RemoteCall>(call), reply, {}},
                              holder_.context());
  }

  [[nodiscard]] Result<work::VerifiedReply> round_trip() {
    return verify(holder_.serve(request(), call.router));
  }

  /// The verdict on a reply that should not pass.
  [[nodiscard]] std::string refusal(const BufferRef& reply) {
    const auto verified = verify(reply);
    if (verified) return "(accepted)";
    EXPECT_EQ(verified.error().code, ErrorCode::forbidden);
    return verified.error().message();
  }

  [[nodiscard]] std::string refusal() { return refusal(holder_.serve(request(), call.router)); }

  work::RemoteCall call;

 private:
  HolderTwin& holder_;
};

class ExecCallCases : public ::testing::TestWithParam<Case> {};

TEST_P(ExecCallCases, OutputsEqualALocalRunBitForBit) {
  HolderTwin holder(GetParam().type);
  Router router(holder, GetParam());
  const auto verified = router.round_trip();
  ASSERT_TRUE(verified) << verified.error().message();
  const work::ExpertsResult local =
      holder.run({.profile = GetParam().profile,
                  .round_to_q8 = GetParam().carrier == CarrierKind::q8_0,
                  .input = router.call.input,
                  .width = kWidth},
                 router.call.batches);
  ASSERT_EQ(verified->outputs.size(), local.outputs.size());
  for (std::size_t i = 0; i < local.outputs.size(); ++i) {
    EXPECT_EQ(verified->outputs[i].expert, local.outputs[i].expert);
    EXPECT_EQ(verified->outputs[i].rows, local.outputs[i].rows);
    const auto here = local.outputs[i].values.bytes();
    const auto there = verified->outputs[i].values.bytes();
    EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin(), there.end())) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ExecCallCases,
    ::testing::Values(Case{WeightType::f32, CarrierKind::dense, compute::Profile::exact},
                      Case{WeightType::f32, CarrierKind::dense, compute::Profile::fast},
                      Case{WeightType::f32, CarrierKind::q8_0, compute::Profile::exact},
                      Case{WeightType::q8_0, CarrierKind::dense, compute::Profile::exact},
                      Case{WeightType::q8_0, CarrierKind::q8_0, compute::Profile::exact},
                      Case{WeightType::q8_0, CarrierKind::q8_0, compute::Profile::fast}));

TEST(ExecCall, RowsOfAReceivedReplyAreNotCopied) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  const BufferRef reply = holder.serve(router.request(), router.call.router);
  const auto verified = router.verify(reply);
  ASSERT_TRUE(verified);
  for (const work::ExpertOutput& output : verified->outputs) {
    EXPECT_GE(output.values.bytes().data(), reply.bytes().data());
    EXPECT_LE(output.values.bytes().data() + output.values.size(),
              reply.bytes().data() + reply.size());
  }
}

TEST(ExecCall, CarrierFromEncodingGivesTheSameVerdict) {
  HolderTwin holder(WeightType::q8_0);
  Router router(holder, {WeightType::q8_0, CarrierKind::q8_0, compute::Profile::exact});
  const auto call = std::make_shared<const work::RemoteCall>(router.call);
  const auto encoded = work::encode_call({call, std::chrono::seconds(1)}, holder.context());
  ASSERT_TRUE(encoded);
  const BufferRef reply = holder.serve(joined(encoded->request), router.call.router);
  EXPECT_TRUE(work::verify_reply({call, reply, encoded->carrier}, holder.context()));
}

TEST(ExecCall, ReplayedReplyIsRefused) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  const BufferRef reply = holder.serve(router.request(), router.call.router);
  router.call.nonce[15] = 9;
  EXPECT_EQ(router.refusal(reply), "receipt set: bad signature");
}

TEST(ExecCall, ReceiptMadeForAnotherRouterIsRefused) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  EXPECT_EQ(router.refusal(holder.serve(router.request(), EndpointId{7})),
            "receipt set: bad signature");
}

TEST(ExecCall, SomeoneElsesReceiptIsRefused) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  router.call.holder = EndpointId{1};
  EXPECT_EQ(router.refusal(), "receipt set: signed by another key than the holder's");
}

TEST(ExecCall, OtherInputsAreSeen) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  const BufferRef reply = holder.serve(router.request(), router.call.router);
  Prng prng(12);
  router.call.input = random_rows(prng, 9, kWidth);
  EXPECT_EQ(router.refusal(reply), "expert 5/0 receipt: input hash mismatch");
}

TEST(ExecCall, WrongBlobIsRefusedWhereTheCallNamesOne) {
  HolderTwin holder(WeightType::f32);
  holder.before_signing = [](work::SignExec& sign) { sign.identities[0].blob = BlobHash{1}; };
  Router router(holder);
  EXPECT_EQ(router.refusal(), "expert 5/0 receipt: another blob than the holder declared");
}

TEST(ExecCall, AnotherProfileIsRefused) {
  HolderTwin holder(WeightType::f32);
  holder.before_signing = [](work::SignExec& sign) {
    auto request = *sign.request;
    request.profile = compute::Profile::fast;
    sign.request = std::make_shared<const wire::ExecRequest>(std::move(request));
  };
  Router router(holder);
  EXPECT_EQ(router.refusal(), "receipt set: another profile than asked for");
}

TEST(ExecCall, OutputsThatAreNotFiniteAreRefused) {
  HolderTwin holder(WeightType::f32);
  holder.before_signing = [](work::SignExec& sign) {
    std::vector<float> values(kWidth, 1.0F);
    values[kWidth - 1] = std::numeric_limits<float>::quiet_NaN();
    sign.outputs[1] = BufferRef::copy_of(std::as_bytes(std::span(values)));
  };
  Router router(holder);
  EXPECT_EQ(router.refusal(), "exec reply: outputs that are not finite");
}

TEST(ExecCall, OutputsChangedAfterSigningAreRefused) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  const BufferRef reply = holder.serve(router.request(), router.call.router);
  // Bits below bf16 are not bound by the receipt; the connection protects them.
  for (const std::size_t from_end : {1U, 2U, 281U, 702U}) {
    BufferRef bent = BufferRef::copy_of(reply.bytes());
    bent.mutable_bytes()[reply.size() - from_end] ^= std::byte{0x10};
    const std::string verdict = router.refusal(bent);
    EXPECT_TRUE(verdict.ends_with("mismatch") || verdict.ends_with("not finite")) << verdict;
  }
}

TEST(ExecCall, OtherOrFewerOrMoreExpertsAreRefused) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  const BufferRef reply = holder.serve(router.request(), router.call.router);
  Router other(holder);
  other.call.batches.pop_back();
  EXPECT_EQ(other.refusal(reply), "exec reply: other experts than asked for");
  other.call = router.call;
  other.call.batches[0].rows = {1, 3};
  EXPECT_EQ(other.refusal(reply), "exec reply: other rows than asked for");
  other.call = router.call;
  other.call.batches[2].expert = 4;
  EXPECT_EQ(other.refusal(reply), "receipt set: other experts than asked for");
}

TEST(ExecCall, CutOrLengthenedReplyIsRefused) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  const BufferRef reply = holder.serve(router.request(), router.call.router);
  for (std::size_t size = 0; size < reply.size(); size += 13) {
    EXPECT_NE(router.refusal(BufferRef::copy_of(reply.bytes().first(size))), "(accepted)") << size;
  }
  EXPECT_NE(router.refusal(joined({reply, BufferRef::copy_of("x")})), "(accepted)");
}

TEST(ExecCall, BusyAndFailureKeepTheHoldersWords) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  const auto busy = router.verify(joined(wire::encode_exec_reply(
      {.status = wire::ExecStatus::busy, .retry_after_ms = 50, .text = "256 requests"})));
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, ErrorCode::busy);
  EXPECT_EQ(busy.error().message(), "256 requests");
  const auto failed = router.verify(joined(
      wire::encode_exec_reply({.status = wire::ExecStatus::failed, .text = "no expert\n here"})));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::runtime);
  EXPECT_EQ(failed.error().message(), "no expert\\x0a here");
}

TEST(ExecCall, ReplyOfAnotherVersionIsARefusalAndNoLie) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  const BufferRef reply = holder.serve(router.request(), router.call.router);
  std::string bytes(reply.text());
  const std::size_t version = bytes.find(std::string{0x08, 0x01});
  ASSERT_LT(version, 8U) << "the first field of the header";
  bytes[version + 1] = 2;
  const auto verified = router.verify(BufferRef::copy_of(bytes));
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code, ErrorCode::runtime);
  EXPECT_EQ(verified.error().message(), "this node speaks tenzro/exec version 1, not 2");
}

TEST(ExecCall, CallThatNoMessageHoldsIsRefusedBeforeItIsSent) {
  HolderTwin holder(WeightType::f32);
  Router router(holder);
  const auto refused = [&](const work::RemoteCall& call) {
    const auto encoded =
        work::encode_call({std::make_shared<const work::RemoteCall>(call), std::chrono::seconds(1)},
                          holder.context());
    return !encoded && encoded.error().code == ErrorCode::invalid_params;
  };
  work::RemoteCall call = router.call;
  call.batches.clear();
  EXPECT_TRUE(refused(call));
  call = router.call;
  call.batches[0].rows = {9};
  EXPECT_TRUE(refused(call));
  call = router.call;
  call.width = 5;
  EXPECT_TRUE(refused(call));
  call = router.call;
  std::swap(call.batches[0], call.batches[1]);
  EXPECT_TRUE(refused(call));
}

}  // namespace
}  // namespace tenzro::testing
