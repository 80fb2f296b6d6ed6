#pragma once
/// \file
/// The bodies of EncodeCall and VerifyReply, by transport.
#include "tenzro/receipts/receipt_set.hpp"
#include "tenzro/work/bodies.hpp"

namespace tenzro::work {

// exec_call.cpp: tenzro/exec/1
[[nodiscard]] Result<EncodedCall> encode_exec_call(const EncodeCall& job,
                                                   const JobContext& context);
[[nodiscard]] Result<VerifiedReply> verify_exec_reply(const VerifyReply& job,
                                                      const JobContext& context);

// json_call.cpp: a frame of tenzro/moe, or a body over HTTP
[[nodiscard]] Result<EncodedCall> encode_json_call(const EncodeCall& job,
                                                   const JobContext& context);
[[nodiscard]] Result<VerifiedReply> verify_json_reply(const VerifyReply& job,
                                                      const JobContext& context);

/// What a holder tells the world of an expert's weights: GGUF type ids, and 255 for none.
void set_types(const ExpertFacts& facts, receipts::SetBatch& batch);

}  // namespace tenzro::work
