#pragma once
/// \file
/// How it is told that an expert on disk cannot be read, whether it was to come to memory or to run
/// from there. Clients match on the beginning. Pure.
#include "tenzro/base/result.hpp"

namespace tenzro::work {

/// What may pass, and what no disk is to blame for, keeps its code: then others ask again, or not.
[[nodiscard]] inline Error disk_error(const Error& error) {
  const bool keeps_code = error.code == ErrorCode::busy || error.code == ErrorCode::cancelled ||
                          error.code == ErrorCode::no_space;
  return {keeps_code ? error.code : ErrorCode::runtime, "",
          "expert disk tier I/O error: " + error.message()};
}

}  // namespace tenzro::work
