#include "exchange_parser.hpp"

#include <string>
#include <utility>

#include "tenzro/base/bytes.hpp"

#include "json_parser.hpp"
#include "param_reader.hpp"

namespace tenzro::rpc {
namespace {

constexpr std::string_view kNullId = "null";
/// What other implementations answer, and their clients look for.
constexpr std::string_view kMoeGated =
    "moe/execute is gated; provide a valid inference api_key or service_key, or be a node of this "
    "mesh";
constexpr std::string_view kExecuteRefusal = "invalid execute params";
constexpr std::string_view kMoeExecuteRefusal = "invalid moe/execute params";

Error invalid_request(std::string detail) {
  return {ErrorCode::invalid_request, "", std::move(detail)};
}

Error not_an_object() {
  return invalid_request("a request must be an object");
}

bool is_64_bit_integer(std::string_view token) {
  if (to_i64(token)) return true;
  return to_u64(token).has_value();
}

/// The id as it was sent: empty where there is none, nothing where it may not be one.
std::optional<std::string_view> read_id(const JsonNode& request) {
  const JsonNode* id = nullptr;
  for (const JsonNode& member : JsonChildren(request)) {
    if (member.key != "id") continue;
    if (id != nullptr) return std::nullopt;
    id = &member;
  }
  if (id == nullptr) return "";
  const bool is_id = id->kind == JsonKind::string || id->kind == JsonKind::null ||
                     (id->kind == JsonKind::number && is_64_bit_integer(id->source));
  if (!is_id) return std::nullopt;
  return id->source;
}

/// What is wrong with the envelope, the method's existence aside.
std::optional<Error> find_fault(const JsonNode& request, bool has_usable_id) {
  if (request.has_duplicate_key) return invalid_request("duplicate key");
  if (!has_usable_id) return invalid_request("id must be a string, a 64-bit integer or null");
  const JsonNode* version = find_member(request, "jsonrpc");
  if (version == nullptr || version->kind != JsonKind::string || version->text != "2.0") {
    return invalid_request("jsonrpc must be \"2.0\"");
  }
  const JsonNode* method = find_member(request, "method");
  if (method == nullptr || method->kind != JsonKind::string) {
    return invalid_request("method must be a string");
  }
  return std::nullopt;
}

const Method* find_moe_method(std::string_view name) {
  if (name == "moe/execute") return find_method("tenzro_moeExecute");
  if (name == "moe/status") return find_method("tenzro_moeExpertStatus");
  return nullptr;
}

/// The object that holds the parameters; null where there are none.
Result<const JsonNode*> find_params(const JsonNode& request) {
  const JsonNode* params = find_member(request, "params");
  if (params == nullptr || params->kind == JsonKind::null) return nullptr;
  if (params->kind == JsonKind::object) return params;
  if (params->kind == JsonKind::array && params->count == 0) return nullptr;
  if (params->kind == JsonKind::array && params->count == 1) {
    const JsonNode* only = &*JsonChildren(*params).begin();
    if (only->kind == JsonKind::object) return only;
  }
  return fail(ErrorCode::invalid_params, "params", "must be an object, [] or [object]");
}

}  // namespace

bool ExchangeParser::is_allowed(Scope scope) const {
  switch (scope) {
    case Scope::read:
      return options_->scopes.read;
    case Scope::execute:
      return options_->scopes.execute;
    case Scope::admin:
      return options_->scopes.admin;
  }
  return false;
}

Result<Call> ExchangeParser::read_call(const JsonNode& request, Exchange::Item& item) const {
  const std::string_view name = find_member(request, "method")->text;
  const bool is_moe = options_->dialect == Dialect::moe;
  const Method* method = is_moe ? find_moe_method(name) : find_method(name);
  if (method == nullptr) return fail(ErrorCode::unknown_method, "unknown method", echo(name));
  item.method = std::string(method->name);
  if (!is_allowed(method->scope)) {
    if (is_moe) return fail(ErrorCode::forbidden, "", std::string(kMoeGated));
    return fail(ErrorCode::forbidden, item.method,
                "needs the scope '" + std::string(name_of(method->scope)) + '\'');
  }
  const Result<const JsonNode*> object = find_params(request);
  if (!object) return fail(object.error());
  ParamReader params(*method, *object, options_->base64);
  Result<Call> call = method->read(params);
  if (!call && is_moe && call.error().where == kExecuteRefusal) {
    call.error().where = kMoeExecuteRefusal;
  }
  return call;
}

void ExchangeParser::add_refusal(Error error) {
  Exchange::Item item;
  item.id_json = kNullId;
  item.outcome = fail(std::move(error));
  exchange_.items_.push_back(std::move(item));
}

void ExchangeParser::add_request(const JsonNode& node) {
  if (node.kind != JsonKind::object) {
    add_refusal(not_an_object());
    return;
  }
  Exchange::Item item;
  const std::optional<std::string_view> id = read_id(node);
  item.id_json = std::string(id.value_or(kNullId));
  const bool is_moe = options_->dialect == Dialect::moe;
  if (is_moe && item.id_json.empty()) item.id_json = kNullId;
  // It comes back as it was sent, however long.
  if (item.id_json.size() > options_->reply_bytes_max - exchange_.reply_bytes_)
    return add_refusal(invalid_request("an id for which the reply has no room"));
  exchange_.reply_bytes_ += item.id_json.size();
  if (std::optional<Error> fault = find_fault(node, id.has_value())) {
    if (item.id_json.empty()) item.id_json = kNullId;
    item.outcome = fail(*std::move(fault));
  } else if (Result<Call> call = read_call(node, item); !call) {
    item.outcome = fail(std::move(call.error()));
  } else if (std::holds_alternative<DiscoverCall>(*call)) {
    exchange_.give(item, Answer(DiscoverAnswer{}), options_->reply_bytes_max);
  } else {
    item.call = *std::move(call);
    ++exchange_.open_;
  }
  exchange_.items_.push_back(std::move(item));
}

void ExchangeParser::add_batch(const JsonNode& batch) {
  if (batch.count == 0) return add_refusal(invalid_request("an empty batch"));
  if (batch.count > options_->batch_max) {
    return add_refusal(invalid_request("a batch of " + std::to_string(batch.count) +
                                       " requests; the limit is " +
                                       std::to_string(options_->batch_max)));
  }
  exchange_.is_batch_ = true;
  exchange_.items_.reserve(batch.count);
  // Numbers have no nodes of their own.
  const std::uint32_t numbers = batch.kind == JsonKind::numbers ? batch.count : 0;
  for (std::uint32_t i = 0; i < numbers; ++i) add_refusal(not_an_object());
  for (const JsonNode& request : JsonChildren(batch)) add_request(request);
}

Exchange ExchangeParser::run(std::string_view body) {
  const JsonLimits limits{.depth_max = options_->depth_max, .values_max = options_->values_max};
  const Result<JsonDocument> document = parse_json(body, limits);
  if (!document) {
    add_refusal(document.error());
  } else if (document->root().is_array() && options_->dialect == Dialect::json_rpc) {
    add_batch(document->root());
  } else {
    add_request(document->root());
  }
  return std::move(exchange_);
}

}  // namespace tenzro::rpc
