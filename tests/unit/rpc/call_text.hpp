#pragma once
/// \file
/// A call as text: every field, tensors byte by byte. Equal texts = equal calls.
#include <string>

#include "tenzro/rpc/call.hpp"

namespace tenzro::rpc {

[[nodiscard]] std::string text_of(const Call& call);

}  // namespace tenzro::rpc
