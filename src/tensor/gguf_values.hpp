#pragma once
/// \file
/// Values of a GGUF file's metadata, from their bytes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenzro/tensor/gguf.hpp"

namespace tenzro::tensor {

/// `kind` is one of GgufCursor's with a fixed size, which `bytes` has.
[[nodiscard]] GgufValue gguf_scalar(std::uint32_t kind, std::span<const std::byte> bytes);
/// An array of such; no value where it is longer than kGgufArrayMax.
[[nodiscard]] GgufValue gguf_numbers(std::uint32_t kind, std::span<const std::byte> bytes);

}  // namespace tenzro::tensor
