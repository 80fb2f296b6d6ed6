#pragma once
/// \file
/// How it is told that an expert on disk cannot be read, whether it was to come to memory or to run
/// from there. Clients match on the beginning. Pure.
#include "tenzro/base/result.hpp"

namespace tenzro::work {

[[nodiscard]] inline Error disk_error(const Error& error) {
  return {ErrorCode::runtime, "", "expert disk tier I/O error: " + error.message()};
}

}  // namespace tenzro::work
