#include "lying_endpoint.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "tenzro/receipts/receipt_set.hpp"

namespace tenzro::testing {
namespace {

constexpr std::array<std::pair<std::string_view, Lie>, 10> kNames{
    {{"nan", Lie::nan},
     {"flipped_sign", Lie::flipped_sign},
     {"missing_expert", Lie::missing_expert},
     {"extra_row", Lie::extra_row},
     {"other_blob", Lie::other_blob},
     {"foreign_key", Lie::foreign_key},
     {"replay", Lie::replay},
     {"truncated", Lie::truncated},
     {"garbled", Lie::garbled},
     {"silent", Lie::silent}}};

BufferRef joined(const std::vector<BufferRef>& parts) {
  std::size_t size = 0;
  for (const BufferRef& part : parts) size += part.size();
  BufferRef whole = BufferRef::allocate(size);
  auto out = whole.mutable_bytes().begin();
  for (const BufferRef& part : parts) out = std::ranges::copy(part.bytes(), out).out;
  return whole;
}

BufferRef copy_with_room(const BufferRef& rows, std::size_t extra) {
  BufferRef copy = BufferRef::allocate(rows.size() + extra);
  std::ranges::fill(copy.mutable_bytes(), std::byte{0});
  std::ranges::copy(rows.bytes(), copy.mutable_bytes().begin());
  return copy;
}

}  // namespace

Lie lie_from_name(std::string_view name) {
  for (const auto& [text, lie] : kNames) {
    if (text == name) return lie;
  }
  return Lie::none;
}

Result<std::unique_ptr<net::Endpoint>> LyingEndpoint::listen(exec::Loop& loop,
                                                             const crypto::KeyPair& identity,
                                                             const net::Options& options,
                                                             net::Handler& handler, Lie lie) {
  auto lying = std::make_unique<LyingEndpoint>(identity, handler, lie);
  auto real = net::Endpoint::listen(loop, identity, options, *lying);
  if (!real) return fail(real.error());
  lying->real_ = std::move(*real);
  return lying;
}

void LyingEndpoint::on_request(net::Request request) {
  if (request.protocol == wire::Protocol::exec) {
    auto asked = wire::decode_exec_request(request.bytes);
    if (asked) asked_.emplace(request.id, Asked{std::move(*asked), request.from});
  }
  handler_.on_request(std::move(request));
}

void LyingEndpoint::on_request_cancelled(PeerRequestId request) {
  asked_.erase(request);
  handler_.on_request_cancelled(request);
}

void LyingEndpoint::refuse(PeerRequestId request) {
  asked_.erase(request);
  real_->refuse(request);
}

void LyingEndpoint::reply(PeerRequestId request, std::vector<BufferRef> reply) {
  const auto asked = asked_.find(request);
  if (asked == asked_.end()) return real_->reply(request, std::move(reply));
  if (lie_ == Lie::silent) return;
  std::vector<BufferRef> told = changed(asked->second, joined(reply));
  asked_.erase(asked);
  real_->reply(request, std::move(told));
}

void LyingEndpoint::sign(const Asked& asked, wire::ExecReply& reply) const {
  const wire::ExecRequest& request = asked.request;
  std::vector<std::vector<std::uint32_t>> places;
  std::vector<receipts::SetBatch> batches;
  places.reserve(reply.receipts.size());
  for (std::size_t i = 0; i < reply.receipts.size(); ++i) {
    const wire::ExecReceipt& old = reply.receipts[i];
    const std::size_t rows = reply.rows[i].size() / sizeof(float) / request.width;
    places.push_back(request.batches[i].rows);
    places.back().resize(rows, places.back().back());
    batches.push_back({old.expert, places.back(), reply.rows[i].as<float>(), old.blob,
                       old.gate_type, old.up_type, old.down_type});
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
      .router = asked.router};
  const auto stranger = crypto::KeyPair::from_seed({1, 2, 3});
  compute::SerialExecutor executor;
  receipts::ReceiptSet set = receipts::make_set(lie_ == Lie::foreign_key ? stranger : identity_,
                                                execution, batches, executor);
  reply.receipts = std::move(set.experts);
  reply.key = set.key;
  reply.signature = set.signature;
}

std::vector<BufferRef> LyingEndpoint::changed(const Asked& asked, const BufferRef& truth) {
  auto reply = wire::decode_exec_reply(truth, asked.request.width);
  if (!reply || reply->status != wire::ExecStatus::served) return {truth};
  if (first_.empty()) first_ = truth;
  if (lie_ == Lie::replay) return {first_};
  if (lie_ == Lie::truncated) return {truth.slice(0, truth.size() / 2)};
  if (lie_ == Lie::garbled) {
    BufferRef bytes = copy_with_room(truth, 0);
    for (std::byte& byte : bytes.mutable_bytes()) byte ^= std::byte{0x5A};
    return {bytes};
  }
  BufferRef& rows = reply->rows.back();
  rows = copy_with_room(rows, lie_ == Lie::extra_row ? asked.request.width * sizeof(float) : 0);
  if (lie_ == Lie::nan) rows.mutable_as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  if (lie_ == Lie::flipped_sign) {
    rows.mutable_bytes()[3] ^= std::byte{0x80};
    return wire::encode_exec_reply(*reply);
  }
  if (lie_ == Lie::missing_expert) {
    reply->receipts.pop_back();
    reply->rows.pop_back();
  }
  if (lie_ == Lie::other_blob) reply->receipts.back().blob[0] ^= 1U;
  sign(asked, *reply);
  return wire::encode_exec_reply(*reply);
}

}  // namespace tenzro::testing
