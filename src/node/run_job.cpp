#include "tenzro/node/run_job.hpp"

#include <optional>

#include "tenzro/prepare/build_blob.hpp"

namespace tenzro::node {
namespace {

template <typename T>
work::JobResult widen(Result<T> result) {
  if (!result) return tl::unexpected<Error>(std::move(result.error()));
  return work::JobOutput(std::move(*result));
}

struct Bodies {
  const work::JobContext& context;

  work::JobResult operator()(const work::AdmitExpert& job) const {
    return widen(admit_expert(job, context));
  }

  work::JobResult operator()(const work::AdmitGate& job) const {
    return widen(admit_gate(job, context));
  }

  work::JobResult operator()(const work::RunGate& job) const {
    return widen(run_gate(job, context));
  }

  work::JobResult operator()(const work::RunExperts& job) const {
    return widen(run_experts(job, context));
  }

  work::JobResult operator()(const work::Combine& job) const {
    return widen(combine(job, context));
  }

  work::JobResult operator()(const work::SignReceipt& job) const {
    return widen(sign_receipt(job, context));
  }

  work::JobResult operator()(const work::EncodeCall& job) const {
    return widen(encode_call(job, context));
  }

  work::JobResult operator()(const work::VerifyReply& job) const {
    return widen(verify_reply(job, context));
  }

  work::JobResult operator()(const work::DecodeExec& job) const {
    return widen(decode_exec(job, context));
  }

  work::JobResult operator()(const work::SignExec& job) const {
    return widen(sign_exec(job, context));
  }

  work::JobResult operator()(const work::ReadFrame& job) const {
    return widen(read_frame(job, context));
  }

  work::JobResult operator()(const work::WriteFrame& job) const {
    return widen(write_frame(job, context));
  }

  work::JobResult operator()(const work::ScanIndex& job) const {
    return widen(prepare::scan_index(job));
  }

  work::JobResult operator()(const work::ScanHeader& job) const {
    return widen(prepare::scan_header(job));
  }

  work::JobResult operator()(const work::ScanGguf& job) const {
    return widen(prepare::scan_gguf(job));
  }

  work::JobResult operator()(const work::BuildExpertBlob& job) const {
    return widen(prepare::build_expert_blob(job, context.executor, context.backend.row_encoder()));
  }

  work::JobResult operator()(const work::BuildGateBlob& job) const {
    return widen(prepare::build_gate_blob(job));
  }
};

/// What a tiny job may read; a hash of so much takes about a tenth of a millisecond.
constexpr std::size_t kTinyBytes = 96 << 10;

/// Bytes that a job of tenzro/exec reads; nothing for other jobs.
struct BytesRead {
  std::optional<std::size_t> operator()(const work::EncodeCall& job) const {
    if (job.call->transport != work::Transport::exec) return std::nullopt;
    std::size_t rows = 0;  // one that several experts want counts for each
    for (const auto& batch : job.call->batches) rows += batch.rows.size();
    return rows * job.call->width * sizeof(float);
  }

  std::optional<std::size_t> operator()(const work::VerifyReply& job) const {
    if (job.call->transport != work::Transport::exec) return std::nullopt;
    return job.reply.size() + job.carrier.size();
  }

  std::optional<std::size_t> operator()(const work::DecodeExec& job) const {
    return job.message.size();
  }

  std::optional<std::size_t> operator()(const work::SignExec& job) const {
    std::size_t bytes = job.request->rows.size();
    for (const BufferRef& output : job.outputs) bytes += output.size();
    return bytes;
  }

  template <typename Other>
  std::optional<std::size_t> operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

work::JobResult run_job(const work::Job& job, const work::JobContext& context) {
  return std::visit(Bodies{context}, job);
}

bool is_short(const work::Job& job) {
  return std::holds_alternative<work::SignReceipt>(job) ||
         std::holds_alternative<work::EncodeCall>(job) ||
         std::holds_alternative<work::VerifyReply>(job) ||
         std::holds_alternative<work::DecodeExec>(job) ||
         std::holds_alternative<work::SignExec>(job) ||
         std::holds_alternative<work::ReadFrame>(job) ||
         std::holds_alternative<work::WriteFrame>(job);
}

bool waits_for_disk(const work::Job& job) {
  const auto* admit = std::get_if<work::AdmitExpert>(&job);
  return admit != nullptr && admit->arriving != nullptr;
}

bool is_tiny(const work::Job& job) {
  return std::visit(BytesRead{}, job).value_or(kTinyBytes + 1) <= kTinyBytes;
}

}  // namespace tenzro::node
