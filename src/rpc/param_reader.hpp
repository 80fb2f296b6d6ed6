#pragma once
/// \file
/// Reads the parameters of one request, strictly.
///
/// The first thing wrong is kept, and what is read after it is of no use: a method reads all its
/// parameters in a straight line and `finish` gives the call or that error.
/// Rules
///  - An absent member and null are the same. A wrong type is an error and never "missing".
///  - Integers are written as integers: 1.0, 1e3 and "1" are refused. Out of range is refused.
///  - A message names the field, and repeats at most 200 characters of what was sent.
///  - Only parameters that the method declares can be read (asserted).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/rpc/call.hpp"

#include "json_node.hpp"
#include "method.hpp"

namespace tenzro::rpc {

/// An integer token as a value of that type; the error says what is wrong, without the field.
[[nodiscard]] tl::expected<std::uint32_t, std::string> to_u32(const JsonNode& node);
[[nodiscard]] tl::expected<std::uint32_t, std::string> to_u32(std::string_view token);
[[nodiscard]] tl::expected<std::int64_t, std::string> to_i64(std::string_view token);
[[nodiscard]] tl::expected<std::uint64_t, std::string> to_u64(std::string_view token);

class ParamReader {
 public:
  /// `object` is null where the request has no parameters.
  ParamReader(const Method& method, const JsonNode* object, const Base64Kernels& base64)
      : method_(&method), object_(object), base64_(&base64) {}

  /// The member, or null where it is absent or null.
  [[nodiscard]] const JsonNode* find(std::string_view name) const;

  [[nodiscard]] bool failed() const { return error_.has_value(); }

  /// Keeps the first refusal. The message becomes `where: detail`, or `detail` alone.
  void refuse(std::string_view where, std::string detail);

  ModelId model_id();
  LayerKey layer_key();
  ExpertKey expert_key();

  std::uint32_t u32(std::string_view name);
  std::uint32_t positive_u32(std::string_view name);
  std::optional<std::uint32_t> optional_u32(std::string_view name);
  std::optional<bool> optional_flag(std::string_view name);
  bool flag_or(std::string_view name, bool absent);
  std::string text(std::string_view name);
  std::optional<std::string> optional_text(std::string_view name);
  std::optional<std::vector<std::uint32_t>> optional_u32_list(std::string_view name);
  std::optional<std::vector<std::int64_t>> optional_i64_list(std::string_view name);

  /// Decoded bytes of a base64 string. A fault is refused as `invalid NAME: …`.
  std::optional<BufferRef> optional_base64(std::string_view name);
  /// The same, but a fault is refused as `NAME: invalid base64: …`.
  std::optional<BufferRef> optional_tensor(std::string_view name);
  /// The text of a URI that carries a blob's hash. A fault is refused as `invalid NAME: …`.
  std::optional<std::string> optional_blob_uri(std::string_view name);

  /// The call, or what was refused.
  [[nodiscard]] Result<Call> finish(Call call);

 private:
  const JsonNode* find_string(std::string_view name);
  void refuse_missing(std::string_view name);
  tl::expected<BufferRef, std::string> decode(std::string_view text) const;

  template <typename T, typename Convert>
  std::optional<std::vector<T>> optional_list(std::string_view name, Convert convert);

  const Method* method_;
  const JsonNode* object_;
  const Base64Kernels* base64_;
  std::optional<Error> error_;
};

}  // namespace tenzro::rpc
