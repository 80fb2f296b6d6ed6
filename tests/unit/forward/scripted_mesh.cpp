#include "scripted_mesh.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "support/gate_builder.hpp"

namespace tenzro::forward {
namespace {

/// Stands where a latent layer has its projection; nothing multiplies with it here.
class NoMatrix final : public compute::ResidentMatrix {
 public:
  [[nodiscard]] std::size_t bytes() const override { return 0; }
};

class NoExpert final : public compute::ResidentExpert {
 public:
  explicit NoExpert(bool is_streamed) : is_streamed_(is_streamed) {}

  [[nodiscard]] std::size_t bytes() const override { return 0; }

  [[nodiscard]] bool is_streamed() const override { return is_streamed_; }

 private:
  bool is_streamed_;
};

BufferRef zeros(std::size_t floats) {
  BufferRef buffer = BufferRef::allocate(floats * sizeof(float));
  for (float& value : buffer.mutable_as<float>()) value = 0;
  return buffer;
}

}  // namespace

ProviderAddress address(std::uint8_t number) {
  ProviderAddress address{};
  address[0] = number;
  return address;
}

const work::ExpertFacts* ScriptedMesh::HeldFacts::find(const ExpertKey& key) const {
  const auto it = held.find(key.expert);
  return it == held.end() ? nullptr : &it->second;
}

ScriptedMesh::ScriptedMesh(const Setup& setup)
    : setup_(setup),
      mesh_{.jobs = jobs_,
            .calls = calls_,
            .view = view_,
            .standings = standings_,
            .facts = facts_,
            .prng = prng_,
            .self = address(kSelf),
            .router = address(kSelf),
            .limits = setup.limits} {
  wire::GateBlob blob = testing::plain_gate(setup.experts, setup.width);
  if (setup.has_shared) blob.spec.shared_count = 1;
  gate_ = std::make_shared<work::Gate>(work::Gate{.router = routing::Router(blob)});
  gate_->expert_width = setup.expert_width;
  if (setup.expert_width != setup.width) gate_->latent_down = std::make_shared<NoMatrix>();
}

void ScriptedMesh::hold(std::uint8_t holder, const std::vector<ExpertIndex>& experts,
                        const HolderOptions& options) {
  shards::Provider provider{.address = address(holder),
                            .endpoint_key = address(holder),
                            .addresses = {"192.0.2.1:9001"},
                            .speaks_exec = options.speaks_exec,
                            .profiles = options.profiles};
  if (options.is_http) {
    provider.endpoint_key = {};
    provider.addresses.clear();
  }
  if (options.is_http || options.has_http_too) provider.http_endpoint = "http://192.0.2.1:8545";
  view_.set_provider(provider);
  for (const ExpertIndex expert : experts) {
    view_.declare(provider.address, {"m", 3, expert},
                  {.is_warm = options.is_warm, .types = options.types});
    if (holder != kSelf) continue;
    const bool is_shared = expert >= setup_.experts;
    work::ExpertFacts facts{.d_model = is_shared ? setup_.width : setup_.expert_width};
    if (options.types) {
      facts.gate_type = options.types->gate;
      facts.up_type = options.types->up;
      facts.down_type = options.types->down;
    }
    facts_.held.insert_or_assign(expert, facts);
  }
}

void ScriptedMesh::measure(std::uint8_t holder, Duration took) {
  for (int i = 0; i < 64; ++i) {
    const ledger::OpenCall open = standings_.on_begun(now_, address(holder), 1);
    standings_.on_answered(now_, open, now_ + took);
  }
}

Request ScriptedMesh::request() const {
  Request request{.layer = {"m", 3},
                  .d_model = setup_.width,
                  .top_k = 1,
                  .deadline = now_ + std::chrono::seconds(30)};
  return request;
}

void ScriptedMesh::fly(Request request, const std::vector<std::vector<ExpertIndex>>& routing) {
  request.tokens = static_cast<std::uint32_t>(routing.size());
  request.hidden = zeros(std::size_t{request.tokens} * setup_.width);
  routed_ = {.tokens = request.tokens,
             .slots_per_token = static_cast<std::uint32_t>(routing.front().size())};
  for (const auto& experts : routing) {
    for (const ExpertIndex expert : experts) routed_.slots.push_back({expert, 1.0F});
  }
  flight_ = std::make_unique<Flight>(std::move(request), gate_, mesh_);
  Outbox out;
  flight_->start(now_, out);
  take(std::move(out));
}

void ScriptedMesh::take(Outbox actions) {
  for (Action& action : actions) {
    if (auto* run = std::get_if<Run>(&action)) {
      take_run(*run);
    } else if (const auto* send = std::get_if<SendCall>(&action)) {
      sent_.push_back({send->id, encoded_, now_});
    } else if (const auto* post = std::get_if<SendHttpCall>(&action)) {
      sent_.push_back({post->id, encoded_, now_});
    } else if (const auto* cancel = std::get_if<CancelCall>(&action)) {
      for (Sent& sent : sent_) sent.is_cancelled = sent.is_cancelled || sent.id == cancel->id;
    } else if (const auto* acquire = std::get_if<Acquire>(&action)) {
      acquired_.insert(acquired_.end(), acquire->experts.begin(), acquire->experts.end());
    } else if (auto* finished = std::get_if<ForwardFinished>(&action)) {
      ++finished_;
      outcome_ = std::move(finished->outcome);
    }
  }
}

void ScriptedMesh::take_run(Run& run) {
  Outbox out;
  if (std::holds_alternative<work::RunGate>(run.job)) {
    const work::GateResult gated{
        .routed = routed_,
        .expert_input = zeros(std::size_t{routed_.tokens} * setup_.expert_width),
        .can_be_q8 = setup_.can_be_q8};
    flight_->on_job_done(now_, run.id, work::JobOutput(gated), out);
  } else if (const auto* encode = std::get_if<work::EncodeCall>(&run.job)) {
    encoded_ = encode->call;
    flight_->on_job_done(now_, run.id,
                         work::JobOutput(work::EncodedCall{.carrier = encoded_->input}), out);
  } else if (const auto* verify = std::get_if<work::VerifyReply>(&run.job)) {
    // What was sent is what the reply is held against.
    EXPECT_EQ(verify->carrier.bytes().data(), verify->call->input.bytes().data());
    last_verify_ = run.id;
  } else if (auto* experts = std::get_if<work::RunExperts>(&run.job)) {
    local_runs_.push_back(*experts);
    local_jobs_.emplace_back(run.id, std::move(*experts));
  } else {
    take_combine(std::get<work::Combine>(run.job));
    flight_->on_job_done(now_, run.id, work::JobOutput(work::CombineResult{}), out);
  }
  take(std::move(out));
}

void ScriptedMesh::take_combine(const work::Combine& job) {
  for (const work::ExpertOutput& output : job.outputs) {
    const std::uint32_t width =
        output.expert >= setup_.experts ? setup_.width : setup_.expert_width;
    const std::span<const float> values = output.values.as<float>();
    ASSERT_EQ(values.size(), output.rows.size() * width);
    for (std::size_t i = 0; i < output.rows.size(); ++i) {
      const bool is_new =
          combined_.emplace(std::pair(output.expert, output.rows[i]), values[i * width]).second;
      duplicates_ += is_new ? 0U : 1U;
    }
  }
}

BufferRef ScriptedMesh::values_of(ExpertIndex expert, const std::vector<std::uint32_t>& rows,
                                  std::uint32_t width) const {
  BufferRef values = zeros(rows.size() * width);
  const std::span<float> all = values.mutable_as<float>();
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>(expert * 1000 + rows[i / width]);
  return values;
}

work::VerifiedReply ScriptedMesh::outputs_of(const work::RemoteCall& call) const {
  work::VerifiedReply reply;
  for (const work::RemoteCall::Batch& batch : call.batches)
    reply.outputs.push_back(
        {batch.expert, batch.rows, values_of(batch.expert, batch.rows, call.width)});
  return reply;
}

void ScriptedMesh::answer_late(std::size_t sent) {
  Outbox out;
  flight_->on_call_result(now_, sent_.at(sent).id, work::CallReply{}, out);
  take(std::move(out));
}

void ScriptedMesh::finish_verify(std::size_t sent, const work::JobResult& result) {
  sent_.at(sent).is_over = true;
  last_verify_.reset();
  answer_late(sent);
  ASSERT_TRUE(last_verify_.has_value()) << "the reply was not taken";
  Outbox out;
  flight_->on_job_done(now_, *last_verify_, result, out);
  take(std::move(out));
}

void ScriptedMesh::answer(std::size_t sent) {
  const std::shared_ptr<const work::RemoteCall> call = sent_.at(sent).call;
  finish_verify(sent, work::JobOutput(outputs_of(*call)));
}

void ScriptedMesh::reject(std::size_t sent, ErrorCode code, const std::string& why) {
  finish_verify(sent, fail(code, "", why));
}

void ScriptedMesh::reply(std::size_t sent, BufferRef bytes) {
  sent_.at(sent).is_over = true;
  Outbox out;
  flight_->on_call_result(now_, sent_.at(sent).id, work::CallReply{.bytes = std::move(bytes)}, out);
  take(std::move(out));
}

void ScriptedMesh::lose(std::size_t sent, ErrorCode code) {
  sent_.at(sent).is_over = true;
  Outbox out;
  flight_->on_call_result(now_, sent_.at(sent).id, fail(code, "", "reset"), out);
  take(std::move(out));
}

void ScriptedMesh::start_local() {
  Outbox out;
  for (const ExpertIndex expert : std::exchange(acquired_, {}))
    flight_->on_expert_ready(now_, expert, std::make_shared<NoExpert>(streamed_.contains(expert)),
                             facts_.held.at(expert), out);
  flight_->advance(out);
  take(std::move(out));
}

void ScriptedMesh::finish_local(std::size_t job, const std::optional<Error>& error) {
  const auto [id, experts] = local_jobs_.at(job);
  local_jobs_.erase(local_jobs_.begin() + static_cast<std::ptrdiff_t>(job));
  work::ExpertsResult result;
  for (const auto& batch : experts.batches)
    result.outputs.push_back(
        {batch.expert, batch.rows, values_of(batch.expert, batch.rows, experts.width)});
  Outbox out;
  flight_->on_job_done(now_, id,
                       error ? work::JobResult(tl::unexpected(*error))
                             : work::JobResult(work::JobOutput(std::move(result))),
                       out);
  take(std::move(out));
}

void ScriptedMesh::run_local() {
  start_local();
  for (std::size_t left = local_jobs_.size(); left > 0; --left) finish_local(0);
}

void ScriptedMesh::fail_local(const Error& error) {
  Outbox out;
  for (const ExpertIndex expert : std::exchange(acquired_, {}))
    flight_->on_expert_unavailable(now_, expert, error, out);
  flight_->advance(out);
  take(std::move(out));
}

void ScriptedMesh::advance(Duration by) {
  now_ = now_ + by;
  Outbox out;
  flight_->on_tick(now_, out);
  take(std::move(out));
}

void ScriptedMesh::step() {
  const auto next = flight_->next_deadline();
  if (next) advance(*next - now_);
}

std::uint8_t ScriptedMesh::holder_of(std::size_t sent) const {
  return sent_.at(sent).call->provider[0];
}

std::vector<std::uint8_t> ScriptedMesh::holders() const {
  std::vector<std::uint8_t> numbers;
  for (const Sent& sent : sent_) numbers.push_back(sent.call->provider[0]);
  return numbers;
}

}  // namespace tenzro::forward
