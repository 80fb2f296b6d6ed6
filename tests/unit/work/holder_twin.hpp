#pragma once
/// \file
/// A holder reduced to its bodies: takes a request's bytes, gives the reply's. What it says of
/// itself can be bent, to be a bad holder.
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/kernels/cpu.hpp"
#include "tenzro/work/bodies.hpp"

#include "support/random_expert.hpp"

namespace tenzro::testing {

inline constexpr std::uint32_t kWidth = 64;
inline constexpr std::uint32_t kHiddenWidth = 32;

class HolderTwin {
 public:
  explicit HolderTwin(tensor::WeightType type, std::uint32_t experts = 3) {
    auto made = kernels::make_cpu_backend({});
    if (!made) std::abort();
    backend_ = std::move(*made);
    for (std::uint32_t e = 0; e < experts; ++e) {
      auto admitted =
          work::admit_expert({.blob = random_expert(e + 1, kWidth, kHiddenWidth, type)}, context());
      if (!admitted) std::abort();
      experts_.push_back(std::move(*admitted));
    }
  }

  [[nodiscard]] work::JobContext context() { return {*backend_, executor_, key_}; }

  [[nodiscard]] const crypto::KeyPair& key() const { return key_; }

  [[nodiscard]] BlobHash blob(ExpertIndex expert) const { return experts_.at(expert).hash; }

  /// Changes what is about to be signed.
  std::function<void(work::SignExec&)> before_signing = [](work::SignExec&) {};

  [[nodiscard]] work::ExpertsResult run(work::RunExperts job,
                                        const std::vector<work::RemoteCall::Batch>& batches) {
    for (const auto& batch : batches) {
      job.batches.push_back({batch.expert, experts_.at(batch.expert).resident, batch.rows});
    }
    auto result = work::run_experts(job, context());
    EXPECT_TRUE(result) << result.error().message();
    return result.value_or(work::ExpertsResult{});
  }

  [[nodiscard]] BufferRef serve(const BufferRef& message, const EndpointId& router) {
    const auto decoded = work::decode_exec({message}, context());
    EXPECT_TRUE(decoded) << decoded.error().message();
    if (!decoded) return {};
    const wire::ExecRequest& request = *decoded->request;
    std::vector<work::RemoteCall::Batch> batches;
    for (const wire::ExecBatch& batch : request.batches) {
      batches.push_back({batch.expert, batch.rows});
    }
    const work::ExpertsResult outputs =
        run({.profile = request.profile, .input = decoded->input, .width = request.width}, batches);
    work::SignExec sign{.request = decoded->request, .router = router};
    for (const work::ExpertOutput& output : outputs.outputs) {
      const work::AdmittedExpert& expert = experts_.at(output.expert);
      sign.identities.push_back({expert.hash, expert.facts});
      sign.outputs.push_back(output.values);
    }
    before_signing(sign);
    const auto reply = work::sign_exec(sign, context());
    EXPECT_TRUE(reply);
    return reply ? joined(reply->reply) : BufferRef{};
  }

 private:
  crypto::KeyPair key_ = crypto::KeyPair::from_seed(crypto::Seed{2});
  compute::SerialExecutor executor_;
  std::unique_ptr<compute::Backend> backend_;
  std::vector<work::AdmittedExpert> experts_;
};

}  // namespace tenzro::testing
