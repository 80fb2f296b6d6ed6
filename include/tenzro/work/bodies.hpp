#pragma once
/// \file
/// What the compute jobs do: pure functions from a job and a backend to a result.
///
/// Numerics of `combine` (one order, whatever the network did): for token t, acc = 0; for its slots
/// in order, acc = acc + (w · y), the product rounded before the sum (no FMA), all f32. A latent
/// layer sums its routed slots so, normalises (RMS), projects up, then adds the shared slot. With
/// scale_on = output the routed sum is multiplied by the router's scale before the shared slot is
/// added. Under allow_partial a token's routed weights are multiplied by (routed total / routed
/// arrived), in f32, when slots are missing. Errors: runtime, with the texts clients match on.
/// Thread: any worker; tokens are split over the executor.
#include "tenzro/base/base64.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::work {

struct JobContext {
  compute::Backend& backend;
  compute::Executor& executor;
  const crypto::KeyPair& identity;
  Base64Kernels base64 = scalar_base64_kernels();
};

[[nodiscard]] Result<AdmittedExpert> admit_expert(const AdmitExpert& job,
                                                  const JobContext& context);
[[nodiscard]] Result<AdmittedGate> admit_gate(const AdmitGate& job, const JobContext& context);
[[nodiscard]] Result<GateResult> run_gate(const RunGate& job, const JobContext& context);
[[nodiscard]] Result<ExpertsResult> run_experts(const RunExperts& job, const JobContext& context);
[[nodiscard]] Result<CombineResult> combine(const Combine& job, const JobContext& context);
[[nodiscard]] Result<SignedReceipt> sign_receipt(const SignReceipt& job, const JobContext& context);
[[nodiscard]] Result<EncodedCall> encode_call(const EncodeCall& job, const JobContext& context);
[[nodiscard]] Result<VerifiedReply> verify_reply(const VerifyReply& job, const JobContext& context);
[[nodiscard]] Result<DecodedExec> decode_exec(const DecodeExec& job, const JobContext& context);
[[nodiscard]] Result<SignedExec> sign_exec(const SignExec& job, const JobContext& context);
[[nodiscard]] Result<FrameRead> read_frame(const ReadFrame& job, const JobContext& context);
[[nodiscard]] Result<FrameWritten> write_frame(const WriteFrame& job, const JobContext& context);

}  // namespace tenzro::work
