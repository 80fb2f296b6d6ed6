#pragma once
/// \file
/// SAX handler for the JSON header of a safetensors file.
///
/// Accepts exactly: an object of tensors {dtype, shape, data_offsets} and at most one
/// `__metadata__` object of strings. Everything else stops the parser with a message that names
/// the tensor or key. The shape of the document bounds the depth to three, so no value is ever
/// kept that the format does not know. Offsets stay relative to the tensor bytes; the caller
/// checks how they lie.
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::tensor {

/// A name from the file as an error message shows it.
[[nodiscard]] std::string in_quotes(std::string_view name);

class SafetensorsHeaderReader {
 public:
  /// False where the header is refused; `problem()` says why.
  [[nodiscard]] bool read(std::string_view json);

  [[nodiscard]] const std::string& problem() const { return problem_; }

  [[nodiscard]] SafetensorsHeader& header() { return header_; }

  // The parser's events; each returns false to stop it.
  bool null();
  bool boolean(bool value);
  bool number_integer(std::int64_t value);
  bool number_unsigned(std::uint64_t value);
  bool number_float(double value, const std::string& text);
  bool string(std::string& value);
  bool binary(nlohmann::json::binary_t& value);
  bool start_object(std::size_t elements);
  bool key(std::string& name);
  bool end_object();
  bool start_array(std::size_t elements);
  bool end_array();
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& error);

 private:
  enum class Place : std::uint8_t { document, tensors, tensor, shape, data_offsets, metadata };
  enum class Member : std::uint8_t { dtype, shape, data_offsets };

  bool refuse(std::string problem);
  bool refuse_in_tensor(std::string_view problem);
  bool refuse_value();
  bool begin_tensor();
  bool finish_tensor();
  bool take_member(std::string_view name);

  SafetensorsHeader header_;
  std::string problem_;
  std::size_t json_bytes_ = 0;
  Place place_ = Place::document;
  Member member_ = Member::dtype;
  bool metadata_seen_ = false;
  /// The key whose value comes next: a tensor's name, or a metadata key.
  std::string key_;
  std::string name_;
  TensorInfo tensor_;
  bool dtype_seen_ = false;
  bool shape_seen_ = false;
  bool offsets_seen_ = false;
  unsigned offsets_ = 0;
};

}  // namespace tenzro::tensor
