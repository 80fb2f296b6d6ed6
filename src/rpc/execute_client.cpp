#include "tenzro/rpc/execute_client.hpp"

#include "tenzro/base/bytes.hpp"

#include "answer_encoder.hpp"
#include "json_parser.hpp"
#include "json_writer.hpp"
#include "param_reader.hpp"

namespace tenzro::rpc {
namespace {

constexpr std::string_view kBusyPrefix = "busy: ";

tl::unexpected<Error> malformed(std::string detail) {
  return fail(ErrorCode::forbidden, "execute reply", std::move(detail));
}

const JsonNode* find_string(const JsonNode& object, std::string_view name) {
  const JsonNode* node = find_member(object, name);
  return node != nullptr && node->kind == JsonKind::string ? node : nullptr;
}

bool read_u32(const JsonNode& object, std::string_view name, std::uint32_t& out) {
  const JsonNode* node = find_member(object, name);
  if (node == nullptr) return false;
  const auto value = to_u32(*node);
  out = value.value_or(0);
  return value.has_value();
}

bool read_indices(const JsonNode& object, std::vector<std::uint32_t>& out) {
  const JsonNode* node = find_member(object, "token_indices");
  if (node == nullptr || !node->is_array()) return false;
  if (node->count == 0) return true;
  if (node->kind != JsonKind::numbers) return false;
  out.reserve(node->count);
  NumberTokens tokens(*node);
  while (const auto token = tokens.next()) {
    const auto value = to_u32(*token);
    if (!value) return false;
    out.push_back(*value);
  }
  return true;
}

Error holder_error(const JsonNode& error) {
  const JsonNode* message =
      error.kind == JsonKind::object ? find_string(error, "message") : nullptr;
  const std::string_view text = message != nullptr ? message->text : "an error without a message";
  const bool is_busy = text.starts_with(kBusyPrefix);
  return {is_busy ? ErrorCode::busy : ErrorCode::runtime, "", echo(text)};
}

Result<ExecuteReply> read_result(const JsonNode& result, const Base64Kernels& base64) {
  ExecuteReply reply;
  const JsonNode* model = find_string(result, "model_id");
  if (model == nullptr) return malformed("model_id is missing");
  reply.key.model = std::string(model->text.substr(0, kModelIdBytesMax + 1));
  if (!read_u32(result, "layer", reply.key.layer) ||
      !read_u32(result, "expert", reply.key.expert) ||
      !read_u32(result, "d_model", reply.d_model)) {
    return malformed("layer, expert or d_model is missing");
  }
  if (!read_indices(result, reply.token_indices)) return malformed("token_indices is missing");
  const JsonNode* outputs = find_string(result, "outputs");
  if (outputs == nullptr) return malformed("outputs is missing");
  BufferRef values = BufferRef::allocate(base64_decoded_size(outputs->text));
  const std::span<std::uint8_t> room = values.mutable_as<std::uint8_t>();
  const auto decoded = base64_decode(outputs->text, room.data(), base64);
  if (!decoded) return malformed("outputs is not base64");
  reply.outputs = std::move(values);
  const JsonNode* receipt = find_member(result, "receipt");
  if (receipt != nullptr && receipt->kind != JsonKind::null) {
    reply.receipt_json = std::string(receipt->source);
  }
  return reply;
}

}  // namespace

BufferRef encode_execute_request(std::string_view method, const ExecuteRequest& request,
                                 const Base64Kernels& base64) {
  JsonWriter out;
  out.begin_object();
  out.member("jsonrpc", "2.0");
  out.member("id", std::uint32_t{1});
  out.member("method", method);
  out.key("params");
  out.begin_object();
  out.member("model_id", request.key.model);
  out.member("layer", request.key.layer);
  out.member("expert", request.key.expert);
  out.member("d_model", request.d_model);
  encode_indices(out, "token_indices", request.token_indices);
  out.member("profile", compute::name_of(request.profile));
  out.key(request.is_q8 ? "hidden_q8" : "hidden_states");
  out.base64(request.carrier);
  out.end_object();
  out.end_object();
  return out.finish(base64);
}

Result<ExecuteReply> parse_execute_reply(std::string_view text, const Base64Kernels& base64) {
  constexpr JsonLimits kLimits{.depth_max = 16, .values_max = 200'000};
  const Result<JsonDocument> document = parse_json(text, kLimits);
  if (!document) return malformed("is not JSON");
  const JsonNode& root = document->root();
  if (root.kind != JsonKind::object || root.has_duplicate_key) return malformed("is no reply");
  const JsonNode* error = find_member(root, "error");
  if (error != nullptr && error->kind != JsonKind::null) return fail(holder_error(*error));
  const JsonNode* result = find_member(root, "result");
  if (result == nullptr || result->kind != JsonKind::object) return malformed("has no result");
  return read_result(*result, base64);
}

}  // namespace tenzro::rpc
