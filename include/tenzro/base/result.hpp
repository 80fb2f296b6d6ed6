#pragma once
/// \file
/// Result<T>: a value, or the one Error that explains why there is none.
///
/// For expected failures only (bad input, missing file, no space, busy). A bug of ours is a
/// TENZRO_ASSERT. `rpc` maps `ErrorCode` to JSON-RPC codes in one table; daemons map it to exit
/// codes.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace tenzro {

enum class ErrorCode : std::uint8_t {
  parse_error,      ///< bytes that are not JSON at all
  invalid_request,  ///< JSON, but not a JSON-RPC request
  unknown_method,   ///< no such method
  invalid_params,   ///< a parameter is missing, of the wrong type, out of range
  internal,         ///< a bug of ours that could be contained; logged
  infrastructure,   ///< planner, blob fetch, store: something the request needs is not there
  runtime,          ///< model, weights, execution, receipts
  forbidden,        ///< the caller lacks the scope
  not_found,        ///< no such blob, file, row
  io,               ///< the operating system refused a file or socket operation
  no_space,         ///< disk or budget is full; the detail carries the numbers
  busy,             ///< a bounded queue is full, or another process holds the lock
  cancelled,        ///< the caller went away, or the node is stopping
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  /// The field, tensor, file or key at fault; may be empty.
  std::string where;
  std::string detail;

  /// `where: detail`, or `detail` alone where `where` is empty.
  [[nodiscard]] std::string message() const;
};

/// Lower-case name of a code, for logs and metrics labels.
[[nodiscard]] std::string_view name_of(ErrorCode code);

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string where,
                                                std::string detail) {
  return tl::unexpected<Error>(Error{code, std::move(where), std::move(detail)});
}

[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace tenzro
