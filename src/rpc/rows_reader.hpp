#pragma once
/// \file
/// Reads tensors of a request: f32 rows as base64 or as an array of numbers, and Q8_0 rows.
///
/// Everything that could make a row unfit is refused here, naming the parameter and the row: a
/// length that is no whole number of rows, values that are not finite (also those that only become
/// infinite as f32), block scales that are not finite, and the Q8_0 value -128. See the rules of
/// ParamReader.
#include <cstdint>
#include <optional>
#include <string_view>

#include "tenzro/base/buffer.hpp"
#include "tenzro/rpc/call.hpp"

#include "param_reader.hpp"

namespace tenzro::rpc {

/// f32 values and the parameter they came by.
struct NamedFloats {
  std::string_view name;
  BufferRef data;
};

/// The nearest f32 of a JSON number; infinite where it is beyond the largest.
[[nodiscard]] float to_f32(std::string_view token);

/// `hidden_states` or `hidden`; refused where both are there. Nothing where neither is.
[[nodiscard]] std::optional<NamedFloats> read_hidden(ParamReader& params);

/// Any f32 tensor that has only the base64 form.
[[nodiscard]] std::optional<NamedFloats> read_floats(ParamReader& params, std::string_view name);

/// The values as rows of `width`, checked. Requires width > 0.
[[nodiscard]] Rows to_rows(ParamReader& params, const NamedFloats& values, std::uint32_t width);

/// `hidden_q8`, exactly `tokens` rows of `width`: decoded rows, and the blocks in `carrier`.
/// Requires width > 0 and that the parameter is there.
[[nodiscard]] Rows read_q8_rows(ParamReader& params, std::uint32_t tokens, std::uint32_t width,
                                BufferRef& carrier);

}  // namespace tenzro::rpc
