#pragma once
/// \file
/// One JSON-RPC reply object.
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/rpc/answer.hpp"

#include "json_writer.hpp"

namespace tenzro::rpc {

/// `id_json` is a complete JSON value.
void write_reply(JsonWriter& out, std::string_view id_json, const Result<Answer>& outcome);

}  // namespace tenzro::rpc
