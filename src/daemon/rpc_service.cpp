#include "rpc_service.hpp"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include <spdlog/spdlog.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/http_signature.hpp"

#include "unix_time.hpp"

namespace tenzro::daemon {
namespace {

Error queue_is_full() {
  return {ErrorCode::busy, "", "busy: the work queue is full"};
}

/// Parses a body; a good signature of an admitted node gives the execute scope. `now` in seconds
/// since 1970.
rpc::Exchange parse_body(const BufferRef& body, rpc::ParseOptions options,
                         const std::optional<http::NodeSignature>& signature, std::int64_t now) {
  if (signature) {
    const crypto::HttpRequest request{"POST", signature->path, body.bytes()};
    options.scopes.execute =
        crypto::verify_http({signature->node, signature->time, signature->signature}, request, now)
            .has_value();
  }
  return rpc::Exchange::parse(body, options);
}

}  // namespace

RpcService::RpcService(const Options& options, const Workshop& workshop, NodeShell& shell)
    : options_(options),
      workshop_(workshop),
      shell_(shell),
      answers_(std::make_shared<http::ByteBudget>(options.answers_bytes_max)),
      alive_(std::make_shared<bool>(true)) {}

RpcService::~RpcService() {
  *alive_ = false;
}

void RpcService::on_body(http::RequestRef ref, BufferRef body, const http::Caller& caller) {
  rpc::ParseOptions parse{
      .batch_max = options_.batch_max,
      .reply_bytes_max = std::min(options_.answers_bytes_max, rpc::kReplyBytesMax),
      .base64 = options_.base64};
  parse.scopes = {
      .read = caller.scopes.read, .execute = caller.scopes.execute, .admin = caller.scopes.admin};
  const bool is_stranger = caller.token_name.empty() && !caller.is_loopback;
  if (is_stranger && !options_.executes_for_anyone) parse.scopes.execute = false;
  std::optional<http::NodeSignature> signature;
  if (!parse.scopes.execute) signature = signature_to_check(caller);
  const std::int64_t now = unix_seconds();
  if (body.size() <= kInlineBytesMax) {
    begin(ref, parse_body(body, parse, signature, now), false);
    return;
  }
  conversations_[ref].is_large = true;  // so that a client that leaves meanwhile is noticed
  const bool taken = workshop_.pool.submit(
      exec::Priority::short_job,
      [this, alive = alive_, ref, parse, signature, now, body = std::move(body)]() mutable {
        auto exchange = std::make_shared<rpc::Exchange>(parse_body(body, parse, signature, now));
        body = {};
        workshop_.loop.post([this, alive, ref, exchange] {
          if (*alive && conversations_.contains(ref)) begin(ref, std::move(*exchange), true);
        });
      });
  if (!taken) refuse_busy(ref, queue_is_full());
}

std::optional<http::NodeSignature> RpcService::signature_to_check(
    const http::Caller& caller) const {
  if (!caller.node) return std::nullopt;
  const auto endpoint = hash_from_hex(caller.node->node);
  if (!endpoint || !shell_.node().may_execute(*endpoint)) return std::nullopt;
  return caller.node;
}

RpcService::Held RpcService::make_held() const {
  // The budget lives as long as what counts against it.
  auto owner = std::make_shared<std::pair<std::shared_ptr<http::ByteBudget>, http::Reservation>>(
      std::piecewise_construct, std::forward_as_tuple(answers_), std::forward_as_tuple(*answers_));
  http::Reservation* held = &owner->second;
  return {std::move(owner), held};
}

void RpcService::keep(Conversation& conversation, std::size_t index, Result<rpc::Answer> outcome) {
  rpc::Exchange& exchange = conversation.exchange;
  exchange.set_outcome(index, std::move(outcome), conversation.held->bytes() + answers_->left());
  // Small answers are kept where there is no room, too.
  static_cast<void>(conversation.held->grow_to(exchange.reply_bytes()));
}

void RpcService::begin(http::RequestRef ref, rpc::Exchange exchange, bool is_large) {
  Conversation& conversation = conversations_[ref];
  conversation.exchange = std::move(exchange);
  conversation.held = make_held();
  // Ids, and what parsing has answered; nothing has been done yet.
  const std::size_t bytes = conversation.exchange.reply_bytes();
  if (!conversation.held->grow_to(bytes) && bytes > rpc::kSmallAnswerBytes)
    return refuse_busy(ref, rpc::too_many_answers());
  conversation.is_large = is_large;
  conversation.is_starting = true;
  for (std::size_t i = 0; i < conversation.exchange.size(); ++i) {
    if (auto call = conversation.exchange.take_call(i)) ask(ref, i, std::move(*call));
  }
  conversation.is_starting = false;
  if (conversation.exchange.is_complete()) finish(ref);
}

void RpcService::ask(http::RequestRef ref, std::size_t index, rpc::Call call) {
  const auto done = [this, ref, index](Result<rpc::Answer> answer) {
    const auto it = conversations_.find(ref);
    if (it == conversations_.end()) return;
    Conversation& conversation = it->second;
    conversation.calls.erase(index);
    if (!answer && answer.error().code == ErrorCode::internal) {
      spdlog::error("rpc internal error method={}: {}", conversation.exchange.method(index),
                    answer.error().message());
    }
    keep(conversation, index, std::move(answer));
    if (!conversation.is_starting && conversation.exchange.is_complete()) finish(ref);
  };
  const RequestId request = shell_.call(std::move(call), done);
  // Answered already, perhaps: cancelling it later then does nothing.
  conversations_.at(ref).calls.emplace(index, request);
}

void RpcService::finish(http::RequestRef ref) {
  auto conversation = conversations_.extract(ref);
  auto exchange = std::make_shared<const rpc::Exchange>(std::move(conversation.mapped().exchange));
  Held held = std::move(conversation.mapped().held);
  if (!conversation.mapped().is_large && exchange->reply_bytes() <= kInlineBytesMax) {
    send(ref, exchange->encode(options_.base64), std::move(held));
    return;
  }
  const bool taken = workshop_.pool.submit(
      exec::Priority::short_job, [this, alive = alive_, ref, exchange, base64 = options_.base64,
                                  held = std::move(held)]() mutable {
        BufferRef body = exchange->encode(base64);
        exchange.reset();
        // Back to the loop, which alone may let go of it.
        workshop_.loop.post(
            [this, alive, ref, body = std::move(body), held = std::move(held)]() mutable {
              if (*alive) send(ref, std::move(body), std::move(held));
            });
      });
  if (!taken) refuse_busy(ref, queue_is_full());
}

void RpcService::send(http::RequestRef ref, BufferRef body, Held held) {
  // By now the size is known; less than was thought stays reserved.
  static_cast<void>(held->grow_to(body.size()));
  http::Reply reply{.status = body.empty() ? 204 : 200};
  if (!body.empty()) reply.content_type = "application/json";
  reply.body = std::move(body);
  reply.held = std::move(held);
  server_->reply(ref, reply);
}

void RpcService::refuse_busy(http::RequestRef ref, const Error& error) {
  conversations_.erase(ref);
  server_->reply(ref, {.status = 503,
                       .content_type = "application/json",
                       .body = BufferRef::copy_of(rpc::error_reply(error)),
                       .headers = {{"Retry-After", "1"}}});
}

void RpcService::on_gone(http::RequestRef ref) {
  auto conversation = conversations_.extract(ref);
  if (!conversation) return;
  for (const auto& [index, request] : conversation.mapped().calls) shell_.cancel(request);
}

}  // namespace tenzro::daemon
