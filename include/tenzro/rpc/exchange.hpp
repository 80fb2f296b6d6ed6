#pragma once
/// \file
/// One HTTP body of JSON-RPC: parsed into typed calls, filled with answers, encoded into one reply.
///
/// Parsing and encoding are pure functions of their arguments, so that the shell may run them on a
/// worker thread for large bodies. Rules (docs/rpc.md, JSON-RPC 2.0):
///  - Object or batch array (1..batch_max; empty or too long: one -32600). Notifications get no
///    reply; a batch of notifications alone encodes to nothing (HTTP 204).
///  - `id`: string, 64-bit integer or null, echoed exactly as sent; anything else is -32600 with id
///    null. An object that is no request is no notification either: it is answered with id null.
///  - Depth, invalid UTF-8 and unparsable text: -32700 with id null. More values than values_max:
///    -32600 with id null. A duplicate key anywhere in a request: -32600 `duplicate key` with the
///    request's id, or null where that is what is named twice.
///  - Then in this order: version and method are strings (-32600), the method exists (-32601), the
///    caller has its scope (-32001), the parameters are right (-32602).
///  - `params`: object, [] or [{…}]; null = absent; anything else -32602. Unknown members are
///    ignored.
///  - A tensor is decoded once, straight from the body into its BufferRef, and encoded once,
///    straight into the reply.
///  - Answers that together, with the ids, take more than a reply may become errors, the last ones
///    first. An id that leaves no room for anything is -32600 with id null.
/// Limits: see ParseOptions; a body is at most 2 GiB. Nothing a client sends aborts the process or
/// yields -32603.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/rpc/answer.hpp"
#include "tenzro/rpc/answer_size.hpp"
#include "tenzro/rpc/call.hpp"

namespace tenzro::rpc {

/// What a caller may do; a bit each.
struct Scopes {
  bool read = false;
  bool execute = false;
  bool admin = false;
};

inline constexpr Scopes kAllScopes{.read = true, .execute = true, .admin = true};

/// Which requests a body may hold. `moe` is that of a tenzro/moe frame: one request, `moe/execute`
/// or `moe/status`, which is answered even without an id (with null).
enum class Dialect : std::uint8_t { json_rpc, moe };

struct ParseOptions {
  Dialect dialect = Dialect::json_rpc;
  std::size_t batch_max = 100;
  std::size_t depth_max = 64;
  /// JSON values of one body; the numbers of a `hidden` array do not count. Bounds the memory of
  /// the parsed form: 64 bytes a value.
  std::size_t values_max = 1'000'000;
  /// What the reply may take, about.
  std::size_t reply_bytes_max = kReplyBytesMax;
  Base64Kernels base64 = scalar_base64_kernels();
  /// Calls that need a scope missing here become -32001 errors.
  Scopes scopes = kAllScopes;
};

/// One request of a body: either a call still to be answered or an error already decided.
class Exchange {
 public:
  /// Never fails: a body that cannot be parsed is an exchange with one error and no calls.
  [[nodiscard]] static Exchange parse(const BufferRef& body, const ParseOptions& options);

  /// Number of requests, errors included.
  [[nodiscard]] std::size_t size() const { return items_.size(); }

  /// The call at `index`, moved out; nothing where that request already has its error.
  [[nodiscard]] std::optional<Call> take_call(std::size_t index);
  /// Method name for logs and metrics; empty where unknown, so that a client cannot make names up.
  [[nodiscard]] std::string_view method(std::size_t index) const;
  /// Requires that take_call(index) gave a call and no outcome was set before. `room`: what the
  /// reply may take now, beside those of others; where an answer takes it beyond that, the outcome
  /// is too_many_answers() instead, small answers (kSmallAnswerBytes) excepted.
  void set_outcome(std::size_t index, Result<Answer> outcome, std::size_t room = kReplyBytesMax);

  /// True once every call has its outcome.
  [[nodiscard]] bool is_complete() const { return open_ == 0; }

  /// What the reply takes, about: its ids, and json_bytes of the answers there are.
  [[nodiscard]] std::size_t reply_bytes() const { return reply_bytes_; }

  /// The reply body; empty when nothing is to be sent (notifications alone). Requires
  /// is_complete().
  [[nodiscard]] BufferRef encode(const Base64Kernels& base64) const;

 private:
  struct Item {
    std::string method;
    std::optional<Call> call;
    std::optional<Result<Answer>> outcome;
    /// The id as JSON text; empty for a notification.
    std::string id_json;
  };

  friend class ExchangeParser;

  void give(Item& item, Result<Answer> outcome, std::size_t room);

  std::vector<Item> items_;
  bool is_batch_ = false;
  std::size_t open_ = 0;
  std::size_t reply_bytes_ = 0;
  std::size_t reply_bytes_max_ = kReplyBytesMax;
};

/// `busy`: other replies, not sent yet, leave no room.
[[nodiscard]] Error too_many_answers();

/// JSON-RPC code of an error: the one table.
[[nodiscard]] int json_rpc_code(ErrorCode code);

/// A complete JSON-RPC error reply with id null, for refusals decided before any parsing (413, 415,
/// 503, ...).
[[nodiscard]] std::string error_reply(const Error& error);

/// The OpenRPC document: every method with its parameters, result, errors and an example, as one
/// line. Also proto/openrpc.json, laid out for reading. Cost: builds it anew.
[[nodiscard]] std::string open_rpc_document();

}  // namespace tenzro::rpc
