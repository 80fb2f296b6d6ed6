#include <algorithm>

#include "remote_bodies.hpp"

namespace tenzro::work {
namespace {

/// The call is our own, but its batches follow a plan made of what peers declare: what no message
/// may hold is refused, not asserted.
Status check_call(const RemoteCall& call) {
  const auto refused = [](std::string detail) {
    return fail(ErrorCode::invalid_params, "remote call", std::move(detail));
  };
  if (call.width == 0 || call.input.size() % (std::size_t{call.width} * sizeof(float)) != 0) {
    return refused("the input is no whole number of rows");
  }
  if (call.batches.empty()) return refused("no experts");
  if (call.transport != Transport::exec && call.batches.size() != 1) {
    return refused("this transport takes one expert a call");
  }
  const std::size_t rows = call.input.size() / sizeof(float) / call.width;
  for (const RemoteCall::Batch& batch : call.batches) {
    if (batch.rows.empty()) return refused("an expert without rows");
    const bool is_ascending =
        std::adjacent_find(batch.rows.begin(), batch.rows.end(),
                           [](auto a, auto b) { return a >= b; }) == batch.rows.end();
    if (!is_ascending || batch.rows.back() >= rows) return refused("rows out of order or range");
  }
  if (call.carrier == receipts::CarrierKind::q8_0 &&
      !receipts::q8_carrier_bytes(rows, call.width)) {
    return refused("the width does not divide by 32, as Q8_0 needs");
  }
  return {};
}

}  // namespace

void set_types(const ExpertFacts& facts, receipts::SetBatch& batch) {
  batch.gate_type =
      facts.gate_type ? static_cast<std::uint8_t>(*facts.gate_type) : wire::kAbsentType;
  batch.up_type = static_cast<std::uint8_t>(facts.up_type);
  batch.down_type = static_cast<std::uint8_t>(facts.down_type);
}

Result<EncodedCall> encode_call(const EncodeCall& job, const JobContext& context) {
  if (const Status status = check_call(*job.call); !status) return fail(status.error());
  return job.call->transport == Transport::exec ? encode_exec_call(job, context)
                                                : encode_json_call(job, context);
}

Result<VerifiedReply> verify_reply(const VerifyReply& job, const JobContext& context) {
  if (const Status status = check_call(*job.call); !status) return fail(status.error());
  return job.call->transport == Transport::exec ? verify_exec_reply(job, context)
                                                : verify_json_reply(job, context);
}

}  // namespace tenzro::work
