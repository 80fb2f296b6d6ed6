// Calls as frames of tenzro/moe and as JSON-RPC bodies: what is sent, and which replies are
// believed.
#include <gtest/gtest.h>

#include "tenzro/receipts/receipt.hpp"
#include "tenzro/receipts/receipt_json.hpp"
#include "tenzro/rpc/exchange.hpp"
#include "tenzro/wire/moe_frame.hpp"

#include "holder_twin.hpp"

namespace tenzro::testing {
namespace {

using receipts::CarrierKind;
using tensor::WeightType;
using work::Transport;

/// Router and holder of one call, with the reply's parts open to be bent.
class JsonPair {
 public:
  explicit JsonPair(Transport transport, CarrierKind carrier = CarrierKind::dense)
      : holder_(WeightType::f32) {
    Prng prng(3);
    call.transport = transport;
    call.layer = {"m\"1", 2};
    call.carrier = carrier;
    call.width = kWidth;
    call.input = random_rows(prng, 5, kWidth);
    call.batches = {{1, {0, 2, 4}, {}}};
    call.holder = transport == Transport::http ? EndpointId{} : holder_.key().public_key();
    call.provider = holder_.key().address();
  }

  [[nodiscard]] BufferRef request() {
    const auto encoded = work::encode_call({shared(), std::chrono::seconds(1)}, holder_.context());
    EXPECT_TRUE(encoded) << encoded.error().message();
    return encoded ? joined(encoded->request) : BufferRef{};
  }

  /// As the holder parses it.
  [[nodiscard]] rpc::ExecuteCall received() {
    BufferRef text = request();
    const bool is_moe = call.transport == Transport::moe;
    if (is_moe) text = text.slice(wire::kMoeLengthBytes, text.size() - wire::kMoeLengthBytes);
    exchange_ = rpc::Exchange::parse(
        text, {.dialect = is_moe ? rpc::Dialect::moe : rpc::Dialect::json_rpc});
    auto taken = exchange_.take_call(0);
    EXPECT_TRUE(taken.has_value());
    return std::get<rpc::ExecuteCall>(*taken);
  }

  [[nodiscard]] rpc::ExecuteAnswer answer() {
    const rpc::ExecuteCall asked = received();
    const auto outputs = holder_.run({.input = asked.hidden.data, .width = kWidth},
                                     {{call.batches[0].expert, {0, 1, 2}}});
    rpc::ExecuteAnswer made{
        asked.key, asked.d_model, asked.token_indices, outputs.outputs.front().values, {}};
    const auto sign = work::sign_receipt({.key = asked.key,
                                          .token_indices = asked.token_indices,
                                          .is_q8 = asked.is_q8,
                                          .carrier = asked.carrier,
                                          .d_model = kWidth,
                                          .outputs = made.outputs},
                                         holder_.context());
    made.receipt_json = sign->receipt_json;
    return made;
  }

  [[nodiscard]] BufferRef reply(Result<rpc::Answer> outcome) {
    exchange_.set_outcome(0, std::move(outcome));
    BufferRef body = exchange_.encode(scalar_base64_kernels());
    return call.transport == Transport::moe ? joined(*wire::make_moe_frame(body)) : body;
  }

  [[nodiscard]] Result<work::VerifiedReply> verify(const BufferRef& bytes) {
    return work::verify_reply({shared(), bytes, {}}, holder_.context());
  }

  [[nodiscard]] Error refusal(Result<rpc::Answer> outcome) {
    const auto verified = verify(reply(std::move(outcome)));
    return verified ? Error{ErrorCode::internal, "", "(accepted)"} : verified.error();
  }

  [[nodiscard]] HolderTwin& holder() { return holder_; }

  work::RemoteCall call;

 private:
  [[nodiscard]] std::shared_ptr<const work::RemoteCall> shared() const {
    return std::make_shared<const work::RemoteCall>(call);
  }

  HolderTwin holder_;
  rpc::Exchange exchange_;
};

struct Way {
  Transport transport;
  CarrierKind carrier;
};

class JsonCallWays : public ::testing::TestWithParam<Way> {};

TEST_P(JsonCallWays, OutputsEqualALocalRunBitForBit) {
  JsonPair pair(GetParam().transport, GetParam().carrier);
  const auto verified = pair.verify(pair.reply(pair.answer()));
  ASSERT_TRUE(verified) << verified.error().message();
  const auto local = pair.holder().run({.round_to_q8 = GetParam().carrier == CarrierKind::q8_0,
                                        .input = pair.call.input,
                                        .width = kWidth},
                                       pair.call.batches);
  ASSERT_EQ(verified->outputs.size(), 1U);
  EXPECT_EQ(verified->outputs[0].rows, pair.call.batches[0].rows);
  const auto here = local.outputs[0].values.bytes();
  const auto there = verified->outputs[0].values.bytes();
  EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin(), there.end()));
}

INSTANTIATE_TEST_SUITE_P(All, JsonCallWays,
                         ::testing::Values(Way{Transport::moe, CarrierKind::dense},
                                           Way{Transport::moe, CarrierKind::q8_0},
                                           Way{Transport::http, CarrierKind::dense},
                                           Way{Transport::http, CarrierKind::q8_0}));

TEST(JsonCall, RequestCarriesTheTokensThatTheReceiptNames) {
  JsonPair pair(Transport::moe);
  const rpc::ExecuteCall asked = pair.received();
  EXPECT_EQ(asked.key, (ExpertKey{"m\"1", 2, 1}));
  EXPECT_EQ(asked.token_indices, (std::vector<std::uint32_t>{0, 2, 4}));
  EXPECT_EQ(asked.profile, compute::Profile::exact);
}

TEST(JsonCall, RepliesAboutAnythingElseAreRefused) {
  const std::vector<std::function<void(rpc::ExecuteAnswer&)>> bends{
      [](auto& answer) { answer.key.expert = 0; },
      [](auto& answer) { answer.key.layer = 9; },
      [](auto& answer) { answer.key.model = "other"; },
      [](auto& answer) { answer.d_model = 32; },
      [](auto& answer) {
        answer.token_indices = {0, 2};
      },
      [](auto& answer) {
        answer.token_indices = {2, 0, 4};
      },
      [](auto& answer) { answer.outputs = answer.outputs.slice(0, kWidth * 4); },
      [](auto& answer) { answer.receipt_json.reset(); },
      [](auto& answer) { answer.receipt_json = "{}"; },
      [](auto& answer) { answer.receipt_json = "7"; },
      [](auto& answer) {
        std::vector<float> values(3UL * kWidth, 1.0F / 0.0F);
        answer.outputs = BufferRef::copy_of(std::as_bytes(std::span(values)));
      },
      [](auto& answer) {
        std::vector<float> values(3UL * kWidth, 0.5F);
        answer.outputs = BufferRef::copy_of(std::as_bytes(std::span(values)));
      }};
  for (const Transport transport : {Transport::moe, Transport::http}) {
    for (std::size_t i = 0; i < bends.size(); ++i) {
      JsonPair pair(transport);
      rpc::ExecuteAnswer answer = pair.answer();
      bends[i](answer);
      const Error error = pair.refusal(std::move(answer));
      EXPECT_EQ(error.code, ErrorCode::forbidden) << i << ": " << error.message();
    }
  }
}

TEST(JsonCall, AnotherHoldersReceiptIsRefused) {
  for (const Transport transport : {Transport::moe, Transport::http}) {
    JsonPair pair(transport);
    rpc::ExecuteAnswer answer = pair.answer();
    pair.call.provider = ProviderAddress{3};
    EXPECT_EQ(pair.refusal(std::move(answer)).detail,
              "expert 2/1 receipt: receipt bound to a different provider");
  }
  JsonPair pair(Transport::moe);
  rpc::ExecuteAnswer answer = pair.answer();
  pair.call.holder = EndpointId{3};
  EXPECT_EQ(pair.refusal(std::move(answer)).detail, "signed by another key than the holder's");
}

TEST(JsonCall, ErrorsKeepTheHoldersWordsAndBusyIsBusy) {
  JsonPair pair(Transport::moe);
  static_cast<void>(pair.received());
  const Error busy = pair.refusal(fail(ErrorCode::busy, "", "busy: the compute queue is full"));
  EXPECT_EQ(busy.code, ErrorCode::busy);
  static_cast<void>(pair.received());
  const Error error = pair.refusal(fail(ErrorCode::runtime, "", "no such expert"));
  EXPECT_EQ(error.code, ErrorCode::runtime);
  EXPECT_EQ(error.message(), "no such expert");
}

TEST(JsonCall, BytesThatAreNoReplyAreRefused) {
  for (const std::string_view text : {"", "{}", "[]", "nonsense", R"({"result":{}})",
                                      R"({"result":{"model_id":"m"},"result":{}})"}) {
    JsonPair http(Transport::http);
    const auto verified = http.verify(BufferRef::copy_of(text));
    ASSERT_FALSE(verified);
    EXPECT_EQ(verified.error().code, ErrorCode::forbidden);
    JsonPair moe(Transport::moe);
    EXPECT_EQ(moe.verify(BufferRef::copy_of(text)).error().code, ErrorCode::forbidden);
  }
}

TEST(JsonCall, ManyExpertsDoNotFitOneCall) {
  JsonPair pair(Transport::moe);
  pair.call.batches.push_back({2, {0}, {}});
  const auto encoded = work::encode_call(
      {std::make_shared<const work::RemoteCall>(pair.call), Duration(1)}, pair.holder().context());
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code, ErrorCode::invalid_params);
}

}  // namespace
}  // namespace tenzro::testing
