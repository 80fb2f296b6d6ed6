// Goal: a forward whose experts run at other holders gives the bits of one that runs them itself.
// Method: a flight with the real bodies of every job; holders that decode, run and sign as a node
// does, behind tenzro/exec/1 messages or JSON-RPC bodies; one of them may lie.
#include <deque>

#include <gtest/gtest.h>

#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/forward/flight.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/node/run_job.hpp"
#include "tenzro/rpc/exchange.hpp"

#include "support/node_world.hpp"
#include "support/small_layer.hpp"

namespace tenzro::testing {
namespace {

constexpr std::uint32_t kExperts = 4;

BufferRef joined(const std::vector<BufferRef>& parts) {
  std::vector<std::byte> bytes;
  for (const BufferRef& part : parts)
    bytes.insert(bytes.end(), part.bytes().begin(), part.bytes().end());
  return BufferRef::copy_of(bytes);
}

crypto::KeyPair key_of(std::uint8_t number) {
  return crypto::KeyPair::from_seed(crypto::Seed{number});
}

class Layer {
 public:
  Layer() : backend_(*kernels::make_cpu_backend({})), router_(key_of(99)) {
    gate_ = run<work::AdmittedGate>(work::AdmitGate{.blob = small_gate(kExperts, 2)}, router_).gate;
    for (ExpertIndex e = 0; e < kExperts; ++e) {
      experts_.push_back(run<work::AdmittedExpert>(
          work::AdmitExpert{.blob = small_expert(0.3F + static_cast<float>(e))}, router_));
    }
  }

  template <typename T>
  T run(const work::Job& job, const crypto::KeyPair& identity) {
    work::JobResult result = node::run_job(job, {*backend_, executor_, identity});
    if (!result) {
      ADD_FAILURE() << result.error().message();
      return T{};
    }
    return std::get<T>(std::move(*result));
  }

  /// What holder `number` answers to an exec message.
  BufferRef serve(std::uint8_t number, const BufferRef& message) {
    const crypto::KeyPair identity = key_of(number);
    const auto decoded = run<work::DecodedExec>(work::DecodeExec{message}, identity);
    work::RunExperts job{.profile = decoded.request->profile,
                         .input = decoded.input,
                         .width = decoded.request->width};
    work::SignExec sign{.request = decoded.request, .router = router_.public_key()};
    for (const wire::ExecBatch& batch : decoded.request->batches) {
      const work::AdmittedExpert& expert = experts_.at(batch.expert);
      job.batches.push_back({batch.expert, expert.resident, batch.rows});
      sign.identities.push_back({.blob = expert.hash, .facts = expert.facts});
    }
    for (work::ExpertOutput& output : run<work::ExpertsResult>(job, identity).outputs)
      sign.outputs.push_back(std::move(output.values));
    return joined(run<work::SignedExec>(std::move(sign), identity).reply);
  }

  /// What holder `number`, a node, answers to the body of a POST that may execute and no more.
  BufferRef serve_http(std::uint8_t number, const BufferRef& body) const {
    NodeWorld world({.seed = number});
    for (ExpertIndex e = 0; e < kExperts; ++e) {
      const BufferRef blob = small_expert(0.3F + static_cast<float>(e));
      expect_answer<rpc::ExpertRow>(
          world.call(rpc::ExpertLoadCall{.key = {"m", 0, e}, .has_inline = true, .blob = blob}));
    }
    rpc::Exchange exchange = rpc::Exchange::parse(body, {.scopes = {.execute = true}});
    for (std::size_t i = 0; i < exchange.size(); ++i) {
      if (auto call = exchange.take_call(i)) exchange.set_outcome(i, world.call(std::move(*call)));
    }
    return exchange.encode(scalar_base64_kernels());
  }

  std::unique_ptr<compute::Backend> backend_;
  compute::SerialExecutor executor_;
  crypto::KeyPair router_;
  std::shared_ptr<const work::Gate> gate_;
  std::vector<work::AdmittedExpert> experts_;
};

class NoFacts final : public forward::Facts {
 public:
  [[nodiscard]] const work::ExpertFacts* find(const ExpertKey& /*key*/) const override {
    return nullptr;
  }
};

/// One forward of three tokens, worked off until it finishes.
class Forwarding {
 public:
  explicit Forwarding(Layer& layer)
      : layer_(layer),
        mesh_{.jobs = jobs_,
              .calls = calls_,
              .view = view_,
              .standings = standings_,
              .facts = facts_,
              .prng = prng_,
              .self = layer.router_.address(),
              .router = layer.router_.public_key(),
              .limits = {}} {}

  void hold(const crypto::KeyPair& key, const std::vector<ExpertIndex>& experts,
            bool is_warm = true) {
    view_.set_provider(
        {.address = key.address(), .endpoint_key = key.public_key(), .addresses = {"192.0.2.1:1"}});
    for (const ExpertIndex e : experts) {
      view_.declare(key.address(), {"m", 0, e},
                    {.is_warm = is_warm, .blob = layer_.experts_.at(e).hash});
    }
  }

  /// A holder without QUIC addresses.
  void hold_over_http(std::uint8_t number, const std::vector<ExpertIndex>& experts) {
    const crypto::KeyPair key = key_of(number);
    view_.set_provider({.address = key.address(),
                        .endpoint_key = key.public_key(),
                        .http_endpoint = "http://192.0.2.1:" + std::to_string(number)});
    for (const ExpertIndex e : experts) {
      view_.declare(key.address(), {"m", 0, e},
                    {.is_warm = true, .blob = layer_.experts_.at(e).hash});
    }
  }

  /// What holders reached over HTTP answer, from what they would.
  std::function<work::CallResult(std::string body)> http_answer = [](std::string body) {
    return work::CallReply{{}, BufferRef::copy_of(body)};
  };

  /// The holder of this number signs honestly and then changes what it signed.
  void let_lie(std::uint8_t number) { liar_ = number; }

  std::vector<float> outputs() {
    const std::vector<float> hidden{1.5F, -0.25F, 3, 2, -1, 4, 0.125F, 7, 0.1F, 0.2F, 0.3F, 0.7F};
    flight_ = std::make_unique<forward::Flight>(
        forward::Request{.layer = {"m", 0},
                         .tokens = 3,
                         .d_model = kSmallWidth,
                         .hidden = BufferRef::copy_of(std::as_bytes(std::span(hidden))),
                         .top_k = 2,
                         .deadline = now_ + std::chrono::seconds(30)},
        layer_.gate_, mesh_);
    forward::Outbox out;
    flight_->start(now_, out);
    push(std::move(out));
    while (!queue_.empty()) {
      forward::Action action = std::move(queue_.front());
      queue_.pop_front();
      take(action);
    }
    return result_;
  }

  [[nodiscard]] const forward::Tally& tally() const { return flight_->tally(); }

  [[nodiscard]] const ledger::Standings& standings() const { return standings_; }

 private:
  void push(forward::Outbox out) {
    for (forward::Action& action : out) queue_.push_back(std::move(action));
  }

  void take(forward::Action& action) {
    forward::Outbox out;
    if (const auto* run = std::get_if<forward::Run>(&action)) {
      const work::JobResult result =
          node::run_job(run->job, {*layer_.backend_, layer_.executor_, layer_.router_});
      flight_->on_job_done(now_, run->id, result, out);
    } else if (const auto* acquire = std::get_if<forward::Acquire>(&action)) {
      for (const ExpertIndex e : acquire->experts) {
        const work::AdmittedExpert& expert = layer_.experts_.at(e);
        flight_->on_expert_ready(now_, e, expert.resident, expert.facts, out);
      }
      flight_->advance(out);
    } else if (const auto* send = std::get_if<forward::SendCall>(&action)) {
      EXPECT_EQ(send->protocol, wire::Protocol::exec);
      flight_->on_call_result(now_, send->id, reply_to(*send), out);
    } else if (const auto* post = std::get_if<forward::SendHttpCall>(&action)) {
      const std::string port = post->endpoint.substr(post->endpoint.rfind(':') + 1);
      const auto number = static_cast<std::uint8_t>(std::stoi(port));
      const std::string body(layer_.serve_http(number, post->body).text());
      flight_->on_call_result(now_, post->id, http_answer(body), out);
    } else if (const auto* finished = std::get_if<forward::ForwardFinished>(&action)) {
      if (!finished->outcome) {
        ADD_FAILURE() << finished->outcome.error().message();
        return;
      }
      const std::span<const float> values = finished->outcome->outputs.as<float>();
      result_.assign(values.begin(), values.end());
    }
    push(std::move(out));
  }

  work::CallReply reply_to(const forward::SendCall& send) {
    for (std::uint8_t number = 1; number < 10; ++number) {
      if (key_of(number).public_key() != send.target.id) continue;
      BufferRef reply = layer_.serve(number, joined(send.request));
      if (number == liar_) reply.mutable_bytes().back() ^= std::byte{1};
      return {*send.target.id, std::move(reply)};
    }
    ADD_FAILURE() << "a call to nobody";
    return {};
  }

  Layer& layer_;
  work::JobIds jobs_;
  work::CallIds calls_;
  shards::View view_{shards::Options{}};
  ledger::Standings standings_{ledger::Options{}};
  NoFacts facts_;
  Prng prng_{11};
  forward::Mesh mesh_;
  Instant now_{std::chrono::seconds(5)};
  std::uint8_t liar_ = 0;
  std::unique_ptr<forward::Flight> flight_;
  std::deque<forward::Action> queue_;
  std::vector<float> result_;
};

TEST(RemoteForward, HasTheBitsOfALocalOne) {
  Layer layer;
  Forwarding local(layer);
  local.hold(layer.router_, {0, 1, 2, 3});
  const std::vector<float> expected = local.outputs();
  ASSERT_EQ(expected.size(), 12U);
  EXPECT_GT(local.tally().local, 0U);

  Forwarding spread(layer);
  spread.hold(layer.router_, {0});
  spread.hold(key_of(1), {1, 2});
  spread.hold(key_of(2), {3});
  EXPECT_EQ(spread.outputs(), expected);
  EXPECT_GT(spread.tally().iroh, 1U);
  EXPECT_EQ(spread.tally().failures, 0U);
}

TEST(RemoteForward, LyingHolderIsFoundOutAndTheBitsAreTheSame) {
  Layer layer;
  Forwarding local(layer);
  local.hold(layer.router_, {0, 1, 2, 3});
  const std::vector<float> expected = local.outputs();

  Forwarding lied(layer);
  lied.hold(key_of(1), {0, 1, 2, 3});
  lied.hold(key_of(2), {0, 1, 2, 3}, false);
  lied.let_lie(1);
  EXPECT_EQ(lied.outputs(), expected);
  EXPECT_EQ(lied.tally().failures, 1U);
  EXPECT_EQ(lied.tally().replans, 1U);
  EXPECT_EQ(lied.standings().find(key_of(1).address())->streak, 1U);
}

TEST(RemoteForward, HttpHolderGivesTheBitsOfALocalOne) {
  Layer layer;
  Forwarding local(layer);
  local.hold(layer.router_, {0, 1, 2, 3});
  const std::vector<float> expected = local.outputs();

  Forwarding spread(layer);
  spread.hold_over_http(1, {0, 1, 2});
  spread.hold(key_of(2), {3});
  EXPECT_EQ(spread.outputs(), expected);
  EXPECT_GT(spread.tally().http, 0U);
  EXPECT_GT(spread.tally().iroh, 0U);
  EXPECT_EQ(spread.tally().failures, 0U);
}

TEST(RemoteForward, WhateverAnHttpHolderAnswersTheBitsAreTheSame) {
  Layer layer;
  Forwarding local(layer);
  local.hold(layer.router_, {0, 1, 2, 3});
  const std::vector<float> expected = local.outputs();

  const auto text = [](std::string_view body) {
    return work::CallReply{{}, BufferRef::copy_of(body)};
  };
  const std::vector<std::function<work::CallResult(std::string)>> answers{
      [&](const std::string& /*body*/) { return text("<html>a proxy's page</html>"); },
      [&](const std::string& /*body*/) { return text(""); },
      [&](const std::string& /*body*/) { return text(R"({"jsonrpc":"2.0","id":1,"result":{}})"); },
      [&](const std::string& /*body*/) {
        return text(R"({"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no"}})");
      },
      [&](std::string body) {  // honest rows, a receipt that is not theirs
        const std::size_t at = body.find("\"outputs\":\"") + 11;
        body[at] = body[at] == 'B' ? 'C' : 'B';
        return text(body);
      },
      [&](std::string body) {
        return text(body.replace(body.find("\"receipt\""), 9, "\"absent\""));
      },
      [](const std::string& /*body*/) -> work::CallResult {
        return fail(ErrorCode::io, "http://192.0.2.1:1", "HTTP status 502");
      }};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Forwarding lied(layer);
    lied.hold_over_http(1, {0, 1, 2, 3});
    lied.hold(key_of(2), {0, 1, 2, 3}, false);
    lied.http_answer = answers[i];
    EXPECT_EQ(lied.outputs(), expected) << i;
    EXPECT_EQ(lied.tally().http, 0U) << i;
    EXPECT_GT(lied.tally().failures, 0U) << i;
  }
}

}  // namespace
}  // namespace tenzro::testing
