#pragma once
/// \file
/// One method: its name, who may call it, its parameters with their types, its help, an example,
/// and the function that reads its parameters.
///
/// The parser reads only parameters that are declared here (ParamReader asserts it), and
/// proto/openrpc.json and docs/rpc.md are made from the same values, so the three cannot disagree.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/rpc/call.hpp"

namespace tenzro::rpc {

class ParamReader;

enum class Scope : std::uint8_t { read, execute, admin };
[[nodiscard]] std::string_view name_of(Scope scope);

enum class Need : std::uint8_t { required, optional };

/// A type as a reader of the reference sees it, and as JSON Schema.
struct ParamType {
  std::string_view word;
  std::string_view schema;
};

struct Param {
  std::string_view name;
  ParamType type;
  Need need = Need::required;
  std::string_view help;
};

/// An error that this method answers, beside those that every method has.
struct MethodError {
  int code = 0;
  /// The message; parts that vary are in capitals.
  std::string_view message;
};

struct Method {
  std::string_view name;
  Scope scope = Scope::read;
  std::string_view help;
  std::span<const Param> params;
  /// What the result holds, in words.
  std::string_view result;
  std::span<const MethodError> errors;
  /// JSON of the parameters and of the result that belongs to them.
  std::string_view example_params;
  std::string_view example_result;
  Result<Call> (*read)(ParamReader& params) = nullptr;
};

namespace types {
inline constexpr ParamType kModelId{"string", R"({"type":"string","minLength":1,"maxLength":256})"};
inline constexpr ParamType kText{"string", R"({"type":"string"})"};
inline constexpr ParamType kFlag{"bool", R"({"type":"boolean"})"};
inline constexpr ParamType kU32{"u32", R"({"type":"integer","minimum":0,"maximum":4294967295})"};
inline constexpr ParamType kPositiveU32{"u32",
                                        R"({"type":"integer","minimum":1,"maximum":4294967295})"};
inline constexpr ParamType kU32List{
    "u32[]", R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":4294967295}})"};
inline constexpr ParamType kI64List{"i64[]", R"({"type":"array","items":{"type":"integer"}})"};
inline constexpr ParamType kNumberList{"number[]", R"({"type":"array","items":{"type":"number"}})"};
inline constexpr ParamType kBase64{"base64", R"({"type":"string","contentEncoding":"base64"})"};
inline constexpr ParamType kProfile{"string", R"({"type":"string","enum":["exact","fast"]})"};
inline constexpr ParamType kBlobUri{"URI", R"({"type":"string","pattern":"^tenzro://"})"};
}  // namespace types

// Parameters that many methods share.
inline constexpr Param kModelIdParam{
    "model_id", types::kModelId, Need::required,
    "The model: 1 to 256 bytes of UTF-8 without control characters."};
inline constexpr Param kLayerParam{"layer", types::kU32, Need::required,
                                   "Index of the layer in its model."};
inline constexpr Param kExpertParam{
    "expert", types::kU32, Need::required,
    "Index of the expert in its layer; the fused shared expert has index num_experts."};

// The groups of the table, each beside the functions that read its parameters.
[[nodiscard]] std::span<const Method> shard_methods();
[[nodiscard]] std::span<const Method> expert_methods();
[[nodiscard]] std::span<const Method> forward_methods();
[[nodiscard]] std::span<const Method> prepare_methods();
[[nodiscard]] std::span<const Method> blob_methods();
[[nodiscard]] std::span<const Method> node_methods();

/// A group with its heading in the reference.
struct MethodGroup {
  std::string_view title;
  std::span<const Method> methods;
};

inline constexpr std::size_t kGroups = 6;
[[nodiscard]] std::array<MethodGroup, kGroups> method_groups();

/// Null where there is no such method.
[[nodiscard]] const Method* find_method(std::string_view name);

}  // namespace tenzro::rpc
