#include <algorithm>
#include <chrono>

#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/exec_message.hpp"

#include "remote_bodies.hpp"
#include "rows.hpp"

namespace tenzro::work {
namespace {

/// Every row that some expert needs, once, ascending.
std::vector<std::uint32_t> rows_of(const RemoteCall& call) {
  std::vector<std::uint32_t> all;
  for (const RemoteCall::Batch& batch : call.batches) {
    all.insert(all.end(), batch.rows.begin(), batch.rows.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// Where each row of a batch stands among `tokens`. Both ascend.
std::vector<std::uint32_t> places_of(const std::vector<std::uint32_t>& rows,
                                     const std::vector<std::uint32_t>& tokens) {
  std::vector<std::uint32_t> places;
  places.reserve(rows.size());
  std::uint32_t at = 0;
  for (const std::uint32_t row : rows) {
    while (tokens[at] != row) ++at;
    places.push_back(at);
  }
  return places;
}

bool is_q8(const RemoteCall& call) {
  return call.carrier == receipts::CarrierKind::q8_0;
}

std::uint32_t budget_ms(Duration budget) {
  const std::int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(budget).count();
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(ms, 1, std::int64_t{wire::kExecBudgetMsMax}));
}

tl::unexpected<Error> lie(std::string detail) {
  return fail(ErrorCode::forbidden, "exec reply", std::move(detail));
}

Result<wire::ExecReply> read_reply(const VerifyReply& job) {
  auto reply = wire::decode_exec_reply(job.reply, job.call->width);
  if (!reply) {
    const Error& error = reply.error();
    return error.code == ErrorCode::runtime ? fail(error) : lie(error.message());
  }
  if (reply->status == wire::ExecStatus::busy) return fail(ErrorCode::busy, "", echo(reply->text));
  if (reply->status == wire::ExecStatus::failed) {
    return fail(ErrorCode::runtime, "", echo(reply->text));
  }
  // Before anything is indexed by what the call holds.
  if (reply->receipts.size() != job.call->batches.size())
    return lie("other experts than asked for");
  for (std::size_t i = 0; i < reply->receipts.size(); ++i) {
    if (reply->receipts[i].rows != job.call->batches[i].rows.size()) {
      return lie("other rows than asked for");
    }
  }
  return reply;
}

}  // namespace

Result<EncodedCall> encode_exec_call(const EncodeCall& job, const JobContext& context) {
  const RemoteCall& call = *job.call;
  wire::ExecRequest request{.layer = call.layer,
                            .profile = call.profile,
                            .is_q8 = is_q8(call),
                            .width = call.width,
                            .nonce = call.nonce,
                            .budget_ms = budget_ms(job.budget),
                            .tokens = rows_of(call)};
  request.rows =
      make_carrier(call.input, call.width, request.tokens, request.is_q8, context.executor);
  for (const RemoteCall::Batch& batch : call.batches) {
    wire::ExecBatch asked{.expert = batch.expert, .rows = places_of(batch.rows, request.tokens)};
    if (batch.blob != BlobHash{}) asked.blob = batch.blob;
    request.batches.push_back(std::move(asked));
  }
  auto parts = wire::encode_exec_request(request);
  if (!parts) return fail(parts.error());
  return EncodedCall{std::move(*parts), std::move(request.rows)};
}

Result<VerifiedReply> verify_exec_reply(const VerifyReply& job, const JobContext& context) {
  const RemoteCall& call = *job.call;
  auto reply = read_reply(job);
  if (!reply) return fail(reply.error());
  const std::vector<std::uint32_t> tokens = rows_of(call);
  const BufferRef carrier = job.carrier.empty() ? make_carrier(call.input, call.width, tokens,
                                                               is_q8(call), context.executor)
                                                : job.carrier;
  std::vector<std::vector<std::uint32_t>> places;
  std::vector<receipts::SetBatch> batches;
  places.reserve(call.batches.size());
  VerifiedReply verified;
  for (std::size_t i = 0; i < call.batches.size(); ++i) {
    const RemoteCall::Batch& batch = call.batches[i];
    const std::span<const float> values = reply->rows[i].as<float>();
    if (find_non_finite_row(values, call.width) != batch.rows.size()) {
      return lie("outputs that are not finite");
    }
    places.push_back(places_of(batch.rows, tokens));
    batches.push_back({batch.expert, places.back(), values, batch.blob});
    verified.outputs.push_back({batch.expert, batch.rows, reply->rows[i]});
  }
  const receipts::ReceiptSet set{reply->profile, std::move(reply->receipts), reply->key,
                                 reply->signature};
  const receipts::SetExecution execution{.model = call.layer.model,
                                         .layer = call.layer.layer,
                                         .carrier_kind = call.carrier,
                                         .carrier = carrier.bytes(),
                                         .width = call.width,
                                         .tokens = tokens,
                                         .profile = call.profile,
                                         .nonce = call.nonce,
                                         .router = call.router};
  const Status status =
      receipts::verify_set(call.holder, execution, batches, set, context.executor);
  if (!status) return fail(status.error());
  return verified;
}

}  // namespace tenzro::work
