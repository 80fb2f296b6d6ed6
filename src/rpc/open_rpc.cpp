#include "tenzro/base/assert.hpp"
#include "tenzro/rpc/exchange.hpp"

#include "json_parser.hpp"
#include "json_writer.hpp"
#include "method.hpp"

namespace tenzro::rpc {
namespace {

/// Of the interface, not of the program: it changes when a client would notice.
constexpr std::string_view kInterfaceVersion = "1.0.0";

void write_content(JsonWriter& out, std::string_view name, std::string_view help,
                   std::string_view schema) {
  out.member("name", name);
  out.member("description", help);
  out.key("schema");
  out.raw(schema);
}

void write_params(JsonWriter& out, const Method& method) {
  out.member("paramStructure", "by-name");
  out.key("params");
  out.begin_array();
  for (const Param& param : method.params) {
    out.begin_object();
    write_content(out, param.name, param.help, param.type.schema);
    out.member("required", param.need == Need::required);
    out.end_object();
  }
  out.end_array();
}

void write_errors(JsonWriter& out, const Method& method) {
  out.key("errors");
  out.begin_array();
  for (const MethodError& error : method.errors) {
    out.begin_object();
    out.key("code");
    out.raw(std::to_string(error.code));
    out.member("message", error.message);
    out.end_object();
  }
  out.end_array();
}

/// OpenRPC lists the parameters of an example one by one, whatever holds them on the wire.
void write_example(JsonWriter& out, const Method& method) {
  const Result<JsonDocument> document = parse_json(method.example_params, JsonLimits{});
  TENZRO_ASSERT(document.has_value());
  const JsonNode* object = &document->root();
  if (object->is_array()) object = &*JsonChildren(*object).begin();
  out.key("examples");
  out.begin_array();
  out.begin_object();
  out.member("name", "example");
  out.key("params");
  out.begin_array();
  for (const JsonNode& member : JsonChildren(*object)) {
    out.begin_object();
    out.member("name", member.key);
    out.key("value");
    out.raw(member.source);
    out.end_object();
  }
  out.end_array();
  out.key("result");
  out.begin_object();
  out.member("name", "result");
  out.key("value");
  out.raw(method.example_result);
  out.end_object();
  out.end_object();
  out.end_array();
}

void write_method(JsonWriter& out, const Method& method) {
  const bool is_array = method.example_result.starts_with('[');
  out.begin_object();
  out.member("name", method.name);
  out.member("summary", method.help);
  out.member("x-scope", name_of(method.scope));
  write_params(out, method);
  out.key("result");
  out.begin_object();
  write_content(out, "result", method.result,
                is_array ? R"({"type":"array"})" : R"({"type":"object"})");
  out.end_object();
  write_errors(out, method);
  write_example(out, method);
  out.end_object();
}

}  // namespace

std::string open_rpc_document() {
  JsonWriter out;
  out.begin_object();
  out.member("openrpc", "1.2.6");
  out.key("info");
  out.begin_object();
  out.member("title", "tenzrod");
  out.member("description", "A node that holds and runs the experts of mixture-of-experts models.");
  out.member("version", kInterfaceVersion);
  out.end_object();
  out.key("methods");
  out.begin_array();
  for (const MethodGroup& group : method_groups()) {
    for (const Method& method : group.methods) write_method(out, method);
  }
  out.end_array();
  out.end_object();
  return std::string(out.finish(scalar_base64_kernels()).text());
}

}  // namespace tenzro::rpc
