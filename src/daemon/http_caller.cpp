#include "http_caller.hpp"

#include <chrono>
#include <utility>

#include "tenzro/crypto/http_signature.hpp"

#include "rpc_service.hpp"
#include "unix_time.hpp"

namespace tenzro::daemon {
namespace {

constexpr int kOk = 200;
constexpr int kUnauthorized = 401;
constexpr int kForbidden = 403;
constexpr int kUnavailable = 503;

std::vector<http::Header> signed_headers(const crypto::KeyPair& key, const http::Post& post) {
  const crypto::HttpRequest request{"POST", post.path, post.body.bytes()};
  crypto::HttpSignature made = crypto::sign_http(key, request, unix_seconds());
  return {{"Content-Type", "application/json"},
          {"X-Tenzro-Node", std::move(made.node)},
          {"X-Tenzro-Time", std::move(made.time)},
          {"X-Tenzro-Signature", std::move(made.signature)}};
}

ErrorCode code_of(int status) {
  if (status == kUnavailable) return ErrorCode::busy;
  const bool is_refusal = status == kUnauthorized || status == kForbidden;
  return is_refusal ? ErrorCode::runtime : ErrorCode::io;
}

work::CallResult to_result(const std::string& endpoint, Result<http::Answer> answer) {
  if (!answer) return fail(std::move(answer.error()));
  if (answer->status == kOk) return work::CallReply{{}, std::move(answer->body)};
  const std::string status = "HTTP status " + std::to_string(answer->status);
  return fail(code_of(answer->status), endpoint, status);
}

}  // namespace

HttpCaller::HttpCaller(exec::Loop& loop, exec::Pool& pool, const crypto::KeyPair& key,
                       http::Client& client, Done done)
    : loop_(loop),
      pool_(pool),
      key_(key),
      client_(client),
      done_(std::move(done)),
      alive_(std::make_shared<bool>(true)) {}

HttpCaller::~HttpCaller() {
  *alive_ = false;
  for (const auto& [id, call] : calls_) {
    if (call) client_.cancel(*call);
  }
}

void HttpCaller::call(work::SendHttpCall call) {
  const PeerCallId id = call.id;
  calls_.emplace(id, std::nullopt);
  http::Post post{.endpoint = std::move(call.endpoint), .body = std::move(call.body)};
  if (post.body.size() <= kInlineBytesMax) {
    post.headers = signed_headers(key_, post);
    this->post(id, std::move(post));
    return;
  }
  const bool taken = pool_.submit(exec::Priority::short_job,
                                  [this, alive = alive_, &loop = loop_, &key = key_, id, post] {
                                    http::Post ready = post;
                                    ready.headers = signed_headers(key, ready);
                                    loop.post([this, alive, id, ready = std::move(ready)] {
                                      if (*alive) this->post(id, ready);
                                    });
                                  });
  if (taken) return;
  loop_.post([this, alive = alive_, id] {
    if (*alive) finish(id, fail(ErrorCode::busy, "", "busy: the work queue is full"));
  });
}

void HttpCaller::post(PeerCallId call, http::Post post) {
  const auto waiting = calls_.find(call);
  if (waiting == calls_.end()) return;
  const std::string endpoint = post.endpoint;
  waiting->second =
      client_.post(std::move(post), [this, call, endpoint](Result<http::Answer> answer) {
        finish(call, to_result(endpoint, std::move(answer)));
      });
}

void HttpCaller::finish(PeerCallId call, const work::CallResult& result) {
  if (calls_.erase(call) != 0) done_(call, result);
}

void HttpCaller::cancel(PeerCallId call) {
  const auto waiting = calls_.extract(call);
  if (waiting && waiting.mapped()) client_.cancel(*waiting.mapped());
}

}  // namespace tenzro::daemon
