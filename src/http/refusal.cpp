#include "refusal.hpp"

namespace tenzro::http {
namespace {

constexpr int kInvalidRequest = -32600;
constexpr int kForbidden = -32001;
constexpr int kInfrastructure = -32000;

int json_rpc_code(int status) {
  if (status == 401 || status == 403) return kForbidden;
  return status >= 500 ? kInfrastructure : kInvalidRequest;
}

}  // namespace

Reply make_reply(const Refusal& refusal) {
  const std::string body = R"({"jsonrpc":"2.0","error":{"code":)" +
                           std::to_string(json_rpc_code(refusal.status)) + R"(,"message":")" +
                           refusal.message + R"("},"id":null})";
  return Reply{.status = refusal.status,
               .content_type = "application/json",
               .body = BufferRef::copy_of(body),
               .headers = refusal.headers};
}

}  // namespace tenzro::http
