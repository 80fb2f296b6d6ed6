#pragma once
/// \file
/// Bytes that one token of one layer puts on the wire, counted from the messages themselves.
#include <cstddef>
#include <cstdint>

namespace tenzro::bench {

struct TokenLayer {
  std::uint32_t width = 0;
  std::uint32_t top_k = 0;
  std::uint32_t holders = 0;  ///< divides top_k
};

/// Requests and replies of tenzro/exec/1, one a holder.
[[nodiscard]] std::size_t exec_bytes(const TokenLayer& layer, bool is_q8);
/// Requests and replies of JSON-RPC with base64 of f32, one an expert, without any HTTP headers.
[[nodiscard]] std::size_t json_bytes(const TokenLayer& layer);

}  // namespace tenzro::bench
