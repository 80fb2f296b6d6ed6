#include "refusal.hpp"

#include "tenzro/rpc/exchange.hpp"

namespace tenzro::http {
namespace {

ErrorCode error_code(int status) {
  if (status == 401 || status == 403) return ErrorCode::forbidden;
  return status >= 500 ? ErrorCode::infrastructure : ErrorCode::invalid_request;
}

}  // namespace

Reply make_reply(const Refusal& refusal) {
  const Error error{error_code(refusal.status), "", refusal.message};
  return Reply{.status = refusal.status,
               .content_type = "application/json",
               .body = BufferRef::copy_of(rpc::error_reply(error)),
               .headers = refusal.headers};
}

}  // namespace tenzro::http
