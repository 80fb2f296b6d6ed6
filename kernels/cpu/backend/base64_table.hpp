#pragma once
/// \file
/// The base64 codecs as data, read from base64.inc.
#include <span>
#include <string_view>

#include "tenzro/base/base64.hpp"
#include "tenzro/kernels/cpu.hpp"

namespace tenzro::kernels {

struct Base64Line {
  std::string_view name;  ///< of the ISA: "avx2", "avx512vbmi"
  Isa isa;                ///< the least forced ISA that may use it
  Base64Kernels kernels;

  /// Whether this CPU can run it; vbmi is in no Isa, so it is asked for apart.
  [[nodiscard]] bool is_available() const;
};

/// Fastest last.
[[nodiscard]] std::span<const Base64Line> base64_lines();

}  // namespace tenzro::kernels
