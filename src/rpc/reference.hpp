#pragma once
/// \file
/// The reference of all methods for people, docs/rpc.md, made from the method table.
#include <string>

namespace tenzro::rpc {

[[nodiscard]] std::string markdown_reference();

}  // namespace tenzro::rpc
