#include "tenzro/base/assert.hpp"
#include "tenzro/wire/exec_message.hpp"

#include "remote_bodies.hpp"
#include "rows.hpp"

namespace tenzro::work {

Result<DecodedExec> decode_exec(const DecodeExec& job, const JobContext& context) {
  auto request = wire::decode_exec_request(job.message);
  if (!request) return fail(request.error());
  const std::size_t rows = request->tokens.size();
  BufferRef input = request->rows;
  if (request->is_q8) {
    auto opened = open_q8_carrier(request->rows, rows, request->width, context.executor);
    if (!opened) return fail(opened.error());
    input = std::move(*opened);
  } else if (const std::size_t bad = find_non_finite_row(input.as<float>(), request->width);
             bad != rows) {
    return fail(ErrorCode::invalid_params, "rows",
                "row " + std::to_string(bad) + " holds a value that is not finite");
  }
  return DecodedExec{std::make_shared<const wire::ExecRequest>(std::move(*request)),
                     std::move(input)};
}

Result<SignedExec> sign_exec(const SignExec& job, const JobContext& context) {
  const wire::ExecRequest& request = *job.request;
  TENZRO_ASSERT(job.outputs.size() == request.batches.size());
  TENZRO_ASSERT(job.identities.size() == request.batches.size());
  std::vector<receipts::SetBatch> batches;
  batches.reserve(request.batches.size());
  for (std::size_t i = 0; i < request.batches.size(); ++i) {
    receipts::SetBatch batch{request.batches[i].expert, request.batches[i].rows,
                             job.outputs[i].as<float>(), job.identities[i].blob};
    set_types(job.identities[i].facts, batch);
    batches.push_back(batch);
  }
  const receipts::SetExecution execution{
      .model = request.layer.model,
      .layer = request.layer.layer,
      .carrier_kind = request.is_q8 ? receipts::CarrierKind::q8_0 : receipts::CarrierKind::dense,
      .carrier = request.rows.bytes(),
      .width = request.width,
      .tokens = request.tokens,
      .profile = request.profile,
      .nonce = request.nonce,
      .router = job.router};
  receipts::ReceiptSet set =
      receipts::make_set(context.identity, execution, batches, context.executor);
  return SignedExec{wire::encode_exec_reply({.status = wire::ExecStatus::served,
                                             .profile = set.profile,
                                             .receipts = std::move(set.experts),
                                             .key = set.key,
                                             .signature = set.signature,
                                             .rows = job.outputs})};
}

}  // namespace tenzro::work
