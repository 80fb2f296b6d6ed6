#include "tenzro/base/bytes.hpp"
#include "tenzro/receipts/receipt.hpp"
#include "tenzro/receipts/receipt_json.hpp"
#include "tenzro/rpc/execute_client.hpp"
#include "tenzro/wire/moe_frame.hpp"

#include "remote_bodies.hpp"
#include "rows.hpp"

namespace tenzro::work {
namespace {

/// Largest body of a reply over HTTP; the frame's own limit stands for tenzro/moe.
constexpr std::size_t kHttpReplyBytesMax = 64ULL << 20U;

tl::unexpected<Error> lie(std::string detail) {
  return fail(ErrorCode::forbidden, "execute reply", std::move(detail));
}

BufferRef carrier_of(const RemoteCall& call, const BufferRef& made, const JobContext& context) {
  if (!made.empty()) return made;
  return make_carrier(call.input, call.width, call.batches.front().rows,
                      call.carrier == receipts::CarrierKind::q8_0, context.executor);
}

Result<rpc::ExecuteReply> read_reply(const VerifyReply& job, const JobContext& context) {
  const RemoteCall& call = *job.call;
  std::string_view text = job.reply.text();
  if (call.transport == Transport::moe) {
    const auto body = wire::moe_frame_body(job.reply);
    if (!body) return lie(body.error().message());
    text = *body;
  } else if (text.size() > kHttpReplyBytesMax) {
    return lie("a reply of " + std::to_string(text.size()) + " bytes");
  }
  return rpc::parse_execute_reply(text, context.base64);
}

/// The reply is about what was asked; its rows have their length and are finite.
Status check_reply(const RemoteCall& call, const rpc::ExecuteReply& reply) {
  const RemoteCall::Batch& batch = call.batches.front();
  if (reply.key != ExpertKey{call.layer.model, call.layer.layer, batch.expert} ||
      reply.d_model != call.width) {
    return lie("another expert or width than asked for");
  }
  if (reply.token_indices != batch.rows) return lie("other tokens than asked for");
  if (reply.outputs.size() != batch.rows.size() * call.width * sizeof(float)) {
    return lie("outputs of " + std::to_string(reply.outputs.size()) + " bytes for " +
               std::to_string(batch.rows.size()) + " rows");
  }
  if (find_non_finite_row(reply.outputs.as<float>(), call.width) != batch.rows.size()) {
    return lie("outputs that are not finite");
  }
  return {};
}

}  // namespace

Result<EncodedCall> encode_json_call(const EncodeCall& job, const JobContext& context) {
  const RemoteCall& call = *job.call;
  const RemoteCall::Batch& batch = call.batches.front();
  const bool is_moe = call.transport == Transport::moe;
  rpc::ExecuteRequest request{.key = {call.layer.model, call.layer.layer, batch.expert},
                              .d_model = call.width,
                              .token_indices = batch.rows,
                              .is_q8 = call.carrier == receipts::CarrierKind::q8_0,
                              .profile = call.profile};
  request.carrier = carrier_of(call, {}, context);
  BufferRef body = rpc::encode_execute_request(is_moe ? "moe/execute" : "tenzro_moeExecute",
                                               request, context.base64);
  if (!is_moe) return EncodedCall{{std::move(body)}, std::move(request.carrier)};
  auto frame = wire::make_moe_frame(std::move(body));
  if (!frame) return fail(frame.error());
  return EncodedCall{std::move(*frame), std::move(request.carrier)};
}

Result<VerifiedReply> verify_json_reply(const VerifyReply& job, const JobContext& context) {
  const RemoteCall& call = *job.call;
  const RemoteCall::Batch& batch = call.batches.front();
  auto reply = read_reply(job, context);
  if (!reply) return fail(reply.error());
  if (const Status status = check_reply(call, *reply); !status) return fail(status.error());
  receipts::Reply answered{.token_indices = reply->token_indices,
                           .outputs = reply->outputs.as<float>()};
  if (reply->receipt_json) {
    const auto receipt = receipts::receipt_from_json(*reply->receipt_json);
    if (!receipt) return lie(receipt.error().message());
    answered.receipt = *receipt;
  }
  // Over HTTP the key is not known beforehand, but it hashes to the provider.
  if (call.holder != EndpointId{} && answered.receipt &&
      answered.receipt->public_key != call.holder) {
    return lie("signed by another key than the holder's");
  }
  const BufferRef carrier = carrier_of(call, job.carrier, context);
  const receipts::Execution execution{.model = call.layer.model,
                                      .layer = call.layer.layer,
                                      .expert = batch.expert,
                                      .token_indices = batch.rows,
                                      .carrier_kind = call.carrier,
                                      .carrier = carrier.bytes(),
                                      .d_model = call.width};
  if (const Status status = verify_receipt(execution, call.provider, answered); !status) {
    return lie(status.error().message());
  }
  return VerifiedReply{{{batch.expert, batch.rows, std::move(reply->outputs)}}};
}

}  // namespace tenzro::work
