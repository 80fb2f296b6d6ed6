#include "reply.hpp"

#include <string>

#include "tenzro/rpc/exchange.hpp"

#include "answer_encoder.hpp"

namespace tenzro::rpc {

void write_reply(JsonWriter& out, std::string_view id_json, const Result<Answer>& outcome) {
  out.begin_object();
  out.member("jsonrpc", "2.0");
  out.key("id");
  out.raw(id_json);
  if (outcome) {
    out.key("result");
    encode_answer(out, *outcome);
  } else {
    out.key("error");
    out.begin_object();
    out.key("code");
    out.raw(std::to_string(json_rpc_code(outcome.error().code)));
    out.member("message", outcome.error().message());
    out.end_object();
  }
  out.end_object();
}

}  // namespace tenzro::rpc
