#include "tenzro/base/result.hpp"

namespace tenzro {

std::string Error::message() const {
  return where.empty() ? detail : where + ": " + detail;
}

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::parse_error:
      return "parse_error";
    case ErrorCode::invalid_request:
      return "invalid_request";
    case ErrorCode::unknown_method:
      return "unknown_method";
    case ErrorCode::invalid_params:
      return "invalid_params";
    case ErrorCode::internal:
      return "internal";
    case ErrorCode::infrastructure:
      return "infrastructure";
    case ErrorCode::runtime:
      return "runtime";
    case ErrorCode::forbidden:
      return "forbidden";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::no_space:
      return "no_space";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::cancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace tenzro
