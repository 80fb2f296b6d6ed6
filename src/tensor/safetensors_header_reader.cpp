#include "safetensors_header_reader.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

}  // namespace

std::string in_quotes(std::string_view name) {
  return '"' + echo(name) + '"';
}

bool SafetensorsHeaderReader::read(std::string_view json) {
  json_bytes_ = json.size();
  const bool parsed = nlohmann::json::sax_parse(json.begin(), json.end(), this);
  return parsed && problem_.empty();
}

bool SafetensorsHeaderReader::refuse(std::string problem) {
  // The first problem is the one to report: the parser may add its own when it is stopped.
  if (problem_.empty()) problem_ = std::move(problem);
  return false;
}

bool SafetensorsHeaderReader::refuse_in_tensor(std::string_view problem) {
  return refuse("tensor " + in_quotes(name_) + ": " + std::string(problem));
}

bool SafetensorsHeaderReader::refuse_value() {
  switch (place_) {
    case Place::document:
      return refuse("header is not a JSON object");
    case Place::tensors:
      return key_ == kMetadataKey ? refuse("__metadata__ is not an object")
                                  : refuse("tensor " + in_quotes(key_) + " is not an object");
    case Place::tensor:
      return refuse_in_tensor(member_ == Member::dtype   ? "dtype is not a string"
                              : member_ == Member::shape ? "shape is not an array"
                                                         : "data_offsets is not an array");
    case Place::shape:
      return refuse_in_tensor("shape holds something else than integers from 0 to 2^64-1");
    case Place::data_offsets:
      return refuse_in_tensor("data_offsets hold something else than integers from 0 to 2^64-1");
    case Place::metadata:
      return refuse("metadata value of " + in_quotes(key_) + " is not a string");
  }
  return false;
}

bool SafetensorsHeaderReader::null() {
  return refuse_value();
}

bool SafetensorsHeaderReader::boolean(bool /*value*/) {
  return refuse_value();
}

bool SafetensorsHeaderReader::number_integer(std::int64_t /*value*/) {
  return refuse_value();  // the parser calls this for negative numbers only, -0 among them
}

bool SafetensorsHeaderReader::number_float(double /*value*/, const std::string& /*text*/) {
  return refuse_value();
}

bool SafetensorsHeaderReader::binary(nlohmann::json::binary_t& /*value*/) {
  return refuse_value();
}

bool SafetensorsHeaderReader::number_unsigned(std::uint64_t value) {
  if (place_ == Place::shape) {
    if (tensor_.shape.size() == kDimensionsMax) {
      return refuse_in_tensor("more than " + std::to_string(kDimensionsMax) + " dimensions");
    }
    tensor_.shape.push_back(value);
    return true;
  }
  if (place_ == Place::data_offsets) {
    if (offsets_ == 2) return refuse_in_tensor("data_offsets hold more than two numbers");
    (offsets_ == 0 ? tensor_.begin : tensor_.end) = value;
    ++offsets_;
    return true;
  }
  return refuse_value();
}

bool SafetensorsHeaderReader::string(std::string& value) {
  if (place_ == Place::metadata) {
    header_.metadata.emplace(std::move(key_), std::move(value));
    return true;
  }
  if (place_ != Place::tensor || member_ != Member::dtype) return refuse_value();
  const auto dtype = dtype_from_name(value);
  if (!dtype) return refuse_in_tensor("dtype " + in_quotes(value) + " is not supported");
  tensor_.dtype = *dtype;
  return true;
}

bool SafetensorsHeaderReader::start_object(std::size_t /*elements*/) {
  if (place_ == Place::document) {
    place_ = Place::tensors;
    return true;
  }
  if (place_ != Place::tensors) return refuse_value();
  if (key_ == kMetadataKey) {
    place_ = Place::metadata;
    return true;
  }
  return begin_tensor();
}

bool SafetensorsHeaderReader::begin_tensor() {
  if (header_.tensors.size() == kTensorsMax) {
    return refuse("more than " + std::to_string(kTensorsMax) + " tensors");
  }
  place_ = Place::tensor;
  name_ = std::move(key_);
  tensor_ = TensorInfo{};
  dtype_seen_ = false;
  shape_seen_ = false;
  offsets_seen_ = false;
  offsets_ = 0;
  return true;
}

bool SafetensorsHeaderReader::key(std::string& name) {
  if (place_ == Place::tensor) return take_member(name);
  if (place_ == Place::metadata) {
    if (header_.metadata.contains(name)) return refuse("duplicate metadata key " + in_quotes(name));
    if (header_.metadata.size() == kMetadataEntriesMax) {
      return refuse("more than " + std::to_string(kMetadataEntriesMax) + " metadata entries");
    }
    key_ = std::move(name);
    return true;
  }
  const bool is_metadata = name == kMetadataKey;
  if (header_.tensors.contains(name) || (is_metadata && metadata_seen_)) {
    return refuse("duplicate key " + in_quotes(name));
  }
  metadata_seen_ = metadata_seen_ || is_metadata;
  key_ = std::move(name);
  return true;
}

bool SafetensorsHeaderReader::take_member(std::string_view name) {
  bool* seen = nullptr;
  if (name == "dtype") {
    member_ = Member::dtype;
    seen = &dtype_seen_;
  } else if (name == "shape") {
    member_ = Member::shape;
    seen = &shape_seen_;
  } else if (name == "data_offsets") {
    member_ = Member::data_offsets;
    seen = &offsets_seen_;
  } else {
    return refuse_in_tensor("unknown key " + in_quotes(name));
  }
  if (*seen) return refuse_in_tensor("duplicate key " + in_quotes(name));
  *seen = true;
  return true;
}

bool SafetensorsHeaderReader::end_object() {
  if (place_ == Place::tensor) return finish_tensor();
  place_ = place_ == Place::metadata ? Place::tensors : Place::document;
  return true;
}

bool SafetensorsHeaderReader::finish_tensor() {
  if (!dtype_seen_) return refuse_in_tensor("dtype is missing");
  if (!shape_seen_) return refuse_in_tensor("shape is missing");
  if (!offsets_seen_) return refuse_in_tensor("data_offsets are missing");
  header_.tensors.emplace(std::move(name_), std::move(tensor_));
  place_ = Place::tensors;
  return true;
}

bool SafetensorsHeaderReader::start_array(std::size_t /*elements*/) {
  if (place_ != Place::tensor || member_ == Member::dtype) return refuse_value();
  place_ = member_ == Member::shape ? Place::shape : Place::data_offsets;
  return true;
}

bool SafetensorsHeaderReader::end_array() {
  if (place_ == Place::data_offsets && offsets_ != 2) {
    return refuse_in_tensor("data_offsets hold less than two numbers");
  }
  place_ = Place::tensor;
  return true;
}

bool SafetensorsHeaderReader::parse_error(std::size_t position, const std::string& /*token*/,
                                          const nlohmann::json::exception& /*error*/) {
  if (position > json_bytes_) return refuse("header ends amid its JSON");
  return refuse("header is not JSON at byte " + std::to_string(position));
}

}  // namespace tenzro::tensor
