#include "tenzro/rpc/exchange.hpp"

#include "reply.hpp"

namespace tenzro::rpc {

int json_rpc_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::parse_error:
      return -32700;
    case ErrorCode::invalid_request:
      return -32600;
    case ErrorCode::unknown_method:
      return -32601;
    case ErrorCode::invalid_params:
      return -32602;
    case ErrorCode::internal:
      return -32603;
    case ErrorCode::forbidden:
      return -32001;
    case ErrorCode::runtime:
      return -32004;
    case ErrorCode::infrastructure:
    case ErrorCode::not_found:
    case ErrorCode::io:
    case ErrorCode::no_space:
    case ErrorCode::busy:
    case ErrorCode::cancelled:
      return -32000;
  }
  return -32603;
}

std::string error_reply(const Error& error) {
  JsonWriter out;
  write_reply(out, "null", tl::unexpected(error));
  const BufferRef reply = out.finish(scalar_base64_kernels());
  return std::string(reply.text());
}

}  // namespace tenzro::rpc
