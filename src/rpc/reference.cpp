#include "reference.hpp"

#include <string_view>

#include "method.hpp"

namespace tenzro::rpc {
namespace {

constexpr std::string_view kIntroduction = R"(# JSON-RPC

Generated from the method table in `src/rpc`; do not edit. After a change there:
`cmake --build build/dev --target tenzro_rpc_docs && build/dev/bin/tenzro_rpc_docs .`

A request is an HTTP POST to `/` with content type `application/json`; replies have HTTP status 200,
those with errors too. `proto/openrpc.json`, and the method `rpc.discover`, give this reference as an
OpenRPC document.

## Rules of every request

- One request object, or a batch: an array of 1 to 100 of them. An empty or longer one gets one error.
- `jsonrpc` is `"2.0"`. `id` is a string, a 64-bit integer or null, and comes back exactly as it was
  sent. A request without `id` is a notification: it is run and not answered. A batch of notifications
  alone is answered with HTTP 204.
- `params` is an object, `[]` or an array with one object. A parameter that is null counts as absent.
  Unknown parameters are ignored. A wrong type is an error and never counts as absent.
- Integers are written as integers: `1.0` and `"1"` are refused. Numbers that are not finite as f32 are
  refused where tensors are expected.
- Objects that name a key twice are refused, at any depth. So are values nested deeper than 64 levels,
  text that is not UTF-8, and bodies of more than 1,000,000 values (the numbers of `hidden` do not
  count).
- base64 is the standard alphabet with padding, without white space. A tensor is f32, little-endian,
  row after row.
- A reply takes at most 384 MiB and at most `[rpc] max_answers_bytes`, about, its ids included; beyond
  it an answer becomes an error that says to ask for less. All answers that are not sent yet, of all clients, take
  at most `[rpc] max_answers_bytes` together: beyond it an answer above 4 KiB becomes an error that
  begins with `busy` and may be tried again, also where others are slow to read theirs.
- An error's `message` names the parameter at fault and repeats at most 200 characters of what was
  sent.

| code | meaning |
|---|---|
| -32700 | the body is not JSON |
| -32600 | not a request; a duplicate key; a batch of the wrong size |
| -32601 | unknown method |
| -32602 | a parameter is missing, of the wrong type, out of range, or does not fit what is loaded |
| -32603 | a fault of the node; no request may cause one |
| -32000 | something outside the model is missing: a holder, a blob, space, time |
| -32001 | the token is missing or lacks the method's scope |
| -32004 | model, weights, execution or receipts |

Scopes matter where the node has a tokens file: `read`, `execute` and `admin` are granted one by one. Of
the pages, `GET /metrics` and `GET /blob/<hash>` need `read` and `PUT /blob` needs `admin`: without a known token the answer
is 401 with `WWW-Authenticate: Bearer`, with one that lacks the scope 403.
)";

/// A cell of a table: the bar would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

std::string contents() {
  std::string out = "\n## Methods\n\n| method | scope | |\n|---|---|---|\n";
  for (const MethodGroup& group : method_groups()) {
    for (const Method& method : group.methods) {
      out.append("| `").append(method.name).append("` | ").append(name_of(method.scope));
      out.append(" | ").append(cell(method.help)).append(" |\n");
    }
  }
  return out;
}

std::string params_table(const Method& method) {
  if (method.params.empty()) return "\nNo parameters.\n";
  std::string out = "\n| parameter | type | | |\n|---|---|---|---|\n";
  for (const Param& param : method.params) {
    out.append("| `").append(param.name).append("` | ").append(cell(param.type.word));
    out.append(param.need == Need::required ? " | required | " : " | optional | ");
    out.append(cell(param.help)).append(" |\n");
  }
  return out;
}

std::string errors_table(const Method& method) {
  if (method.errors.empty()) return {};
  std::string out = "\n| error | message |\n|---|---|\n";
  for (const MethodError& error : method.errors) {
    out.append("| ").append(std::to_string(error.code)).append(" | `");
    out.append(cell(error.message)).append("` |\n");
  }
  return out;
}

std::string section(const Method& method) {
  std::string out = "\n#### ";
  out.append(method.name).append("\n\n").append(method.help);
  out.append(" Scope: ").append(name_of(method.scope)).append(".\n");
  out += params_table(method);
  out.append("\nResult: ").append(method.result).append("\n");
  out += errors_table(method);
  out.append("\n```json\n").append(R"({"jsonrpc":"2.0","id":1,"method":")").append(method.name);
  out.append(R"(","params":)").append(method.example_params).append("}\n");
  out.append(R"({"jsonrpc":"2.0","id":1,"result":)").append(method.example_result);
  out.append("}\n```\n");
  return out;
}

}  // namespace

std::string markdown_reference() {
  std::string out(kIntroduction);
  out += contents();
  for (const MethodGroup& group : method_groups()) {
    out.append("\n### ").append(group.title).append("\n");
    for (const Method& method : group.methods) out += section(method);
  }
  return out;
}

}  // namespace tenzro::rpc
