#pragma once
/// \file
/// What stands where a checkpoint's file should, where its beginning tells.
#include <optional>
#include <string_view>

namespace tenzro::tensor {

/// "the file is an HTML page" or "... a git LFS pointer ..."; nothing where it is neither. For
/// files that do not begin as theirs must: of a safetensors file the first byte may well be '<'.
/// Eight bytes are enough to know a pointer.
[[nodiscard]] std::optional<std::string_view> foreign_file(std::string_view start);

}  // namespace tenzro::tensor
