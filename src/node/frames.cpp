#include "tenzro/node/node.hpp"
#include "tenzro/wire/moe_frame.hpp"

namespace tenzro::node {
namespace {

/// Around the outputs of an execute reply: the envelope, receipts, and an index a token.
constexpr std::uint64_t kReplyTextBytesMax = 16ULL << 10U;
constexpr std::uint64_t kIndexBytesMax = 11;

/// What serving a frame takes beside its bytes, as a multiple of them: decoded rows (Q8_0 opens to
/// 32 / 34 x 4 of its blocks) and outputs.
constexpr std::uint64_t kFrameMemoryFactor = 5;

/// The runtime's own text, as this protocol gives it.
Error raw_error(Error error) {
  constexpr std::string_view kPrefix = "moe execute: ";
  if (error.code == ErrorCode::runtime && error.where.empty() &&
      error.detail.starts_with(kPrefix)) {
    error.detail.erase(0, kPrefix.size());
  }
  return error;
}

/// Refused before the work rather than after it.
Status check_reply_fits(const rpc::ExecuteCall& call) {
  const std::uint64_t tokens = call.token_indices.size();
  // Below 2^64: the rows came in one frame.
  const std::uint64_t bytes =
      base64_encoded_size(call.hidden.data.size()) + tokens * kIndexBytesMax + kReplyTextBytesMax;
  if (bytes <= wire::kMoeFrameBytesMax) return {};
  return fail(ErrorCode::invalid_params, "invalid moe/execute params",
              "token_indices: the response to " + std::to_string(tokens) +
                  " tokens does not fit a frame of " + std::to_string(wire::kMoeFrameBytesMax) +
                  " bytes");
}

}  // namespace

void Node::serve_frame(Instant now, work::PeerRequest request, Outbox& out) {
  ++totals_.peer_requests_moe;
  const std::uint64_t beside = request.bytes.size() * kFrameMemoryFactor;
  if (const auto error = why_busy(request.bytes.size() + beside)) {
    ++totals_.peer_refused_busy;
    const auto frame = wire::make_moe_frame(BufferRef::copy_of(rpc::error_reply(*error)));
    out.emplace_back(SendReply{request.id, *frame});
    return;
  }
  PeerWait& wait = admit_peer(now, request);
  wait.bytes += beside;
  peer_bytes_ += beside;
  const JobId id = ids_.next();
  wait.work = FrameWait{.job = id};
  owners_.emplace(id, request.id);
  out.emplace_back(Run{id, work::ReadFrame{std::move(request.bytes), may_execute(request.from)},
                       std::nullopt, request.id});
}

void Node::on_frame_job(Instant now, PeerRequestId request, JobId id, const work::JobResult& result,
                        Outbox& out) {
  PeerWait& wait = peer_requests_.at(request);
  auto& frame = std::get<FrameWait>(wait.work);
  if (frame.job == id) return on_frame_io(now, request, wait, result, out);
  if (frame.execution == nullptr) return;  // of an execution that ended before it
  forward::Outbox actions;
  if (!result) {
    frame.execution->on_failed(result.error(), actions);
  } else if (const auto* experts = std::get_if<work::ExpertsResult>(&*result)) {
    frame.execution->on_experts_done(*experts, actions);
  } else if (const auto* receipt = std::get_if<work::SignedReceipt>(&*result)) {
    frame.execution->on_signed(*receipt, actions);
  }
  for (forward::Action& action : actions) peer_out_.emplace_back(request, std::move(action));
}

void Node::on_frame_io(Instant now, PeerRequestId request, PeerWait& wait,
                       const work::JobResult& result, Outbox& out) {
  if (!result) {
    // No frame at all, or nobody had time to read or write it: there is nothing to answer with.
    const bool is_malformed = result.error().code == ErrorCode::invalid_params;
    ++(is_malformed ? totals_.peer_refused_malformed : totals_.peer_requests_failed);
    end_peer(request);
    out.emplace_back(RefuseRequest{request});
  } else if (const auto* read = std::get_if<work::FrameRead>(&*result)) {
    on_frame_read(now, request, wait, *read, out);
  } else {
    const bool has_failed = std::get<FrameWait>(wait.work).has_failed;
    ++(has_failed ? totals_.peer_requests_failed : totals_.peer_requests_served);
    end_peer(request);
    out.emplace_back(SendReply{request, std::get<work::FrameWritten>(*result).frame});
  }
}

void Node::on_frame_read(Instant now, PeerRequestId request, PeerWait& wait,
                         const work::FrameRead& read, Outbox& out) {
  auto& frame = std::get<FrameWait>(wait.work);
  frame.exchange = read.exchange;
  auto call = frame.exchange->take_call(0);
  if (!call) {  // refused while it was read; the refusal is its answer
    frame.has_failed = true;
    return write_frame(request, frame, out);
  }
  auto* execute = std::get_if<rpc::ExecuteCall>(&*call);
  if (execute == nullptr) return answer_frame(request, expert_status(now), out);
  if (const Status status = check_reply_fits(*execute); !status) {
    return answer_frame(request, fail(status.error()), out);
  }
  auto execution = make_execution(now, std::move(*execute), &wait.from);
  if (!execution) return answer_frame(request, fail(execution.error()), out);
  frame.execution = std::move(*execution);
  forward::Outbox actions;
  frame.execution->start(actions);
  for (forward::Action& action : actions) peer_out_.emplace_back(request, std::move(action));
}

void Node::answer_frame(PeerRequestId request, Result<rpc::Answer> answer, Outbox& out) {
  auto& frame = std::get<FrameWait>(peer_requests_.at(request).work);
  frame.has_failed = !answer.has_value();
  if (!answer) answer = fail(raw_error(answer.error()));
  frame.exchange->set_outcome(0, std::move(answer));
  write_frame(request, frame, out);
}

void Node::write_frame(PeerRequestId request, FrameWait& frame, Outbox& out) {
  frame.execution.reset();
  const JobId id = ids_.next();
  frame.job = id;
  owners_.emplace(id, request);
  out.emplace_back(Run{id, work::WriteFrame{frame.exchange}, std::nullopt, request});
}

void Node::finish_frame(PeerRequestId request, const Result<forward::ExecutionOutcome>& outcome,
                        Outbox& out) {
  holder_.release_all(lease_of(request), holder_out_);
  if (!outcome) {
    ++totals_.executions_failed;
    return answer_frame(request, fail(outcome.error()), out);
  }
  const auto& execution = std::get<FrameWait>(peer_requests_.at(request).work).execution;
  const forward::ExecuteRequest& asked = execution->request();
  answer_frame(request,
               rpc::ExecuteAnswer{asked.key, asked.d_model, asked.token_indices, outcome->outputs,
                                  outcome->receipt_json, outcome->receipt2_json},
               out);
}

}  // namespace tenzro::node
