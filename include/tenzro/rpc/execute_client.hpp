#pragma once
/// \file
/// The caller's side of executing an expert elsewhere over JSON: the request's text, and the
/// reply's.
///
/// `tenzro_moeExecute` over HTTP and `moe/execute` in a frame of tenzro/moe differ by their
/// method's name alone (and by what stands around the text). Rules
///  - The reply may come from any implementation: members that are not known are ignored, a member
///    that is needed and absent or of another type makes the reply malformed, a key named twice
///    too.
///  - An error object is an error of code runtime with the holder's text, or busy where the text
///    begins `busy: `; a malformed reply is an error of code forbidden.
///  - Values of outputs are not looked at, nor is the receipt.
/// Pure. Thread: any.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/compute/backend.hpp"

namespace tenzro::rpc {

struct ExecuteRequest {
  ExpertKey key;
  std::uint32_t d_model = 0;
  std::vector<std::uint32_t> token_indices;
  bool is_q8 = false;
  BufferRef carrier;
  compute::Profile profile = compute::Profile::exact;
};

[[nodiscard]] BufferRef encode_execute_request(std::string_view method,
                                               const ExecuteRequest& request,
                                               const Base64Kernels& base64);

struct ExecuteReply {
  ExpertKey key;
  std::uint32_t d_model = 0;
  std::vector<std::uint32_t> token_indices;
  BufferRef outputs;
  std::optional<std::string> receipt_json;
};

[[nodiscard]] Result<ExecuteReply> parse_execute_reply(std::string_view text,
                                                       const Base64Kernels& base64);

}  // namespace tenzro::rpc
