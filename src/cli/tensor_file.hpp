#pragma once
/// \file
/// Tensors in files: rows of f32, little-endian, one after the other, and nothing else.
#include <cstdint>
#include <string>

#include "json.hpp"
#include "outcome.hpp"

namespace tenzro::cli {

struct TensorText {
  std::string base64;
  std::uint64_t rows = 0;
};

/// A usage failure where the file's size is not a whole number of rows.
[[nodiscard]] Outcome<TensorText> read_tensor(const std::string& path, std::uint32_t d_model);
/// Writes the rows of a result's `outputs`.
[[nodiscard]] Outcome<void> keep_outputs(const Json& result, const std::string& path);

}  // namespace tenzro::cli
