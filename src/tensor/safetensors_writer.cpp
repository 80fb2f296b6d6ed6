#include <cstring>
#include <set>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::size_t kAlignment = 8;

/// `text` as a JSON string. Only what JSON demands is escaped, so that bytes depend on nothing but
/// the text.
void append_string(std::string& json, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  json.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json.push_back('\\');
      json.push_back(c);
    } else if (byte < 0x20) {
      json += "\\u00";
      json.push_back(kHex[byte >> 4U]);
      json.push_back(kHex[byte & 15U]);
    } else {
      json.push_back(c);
    }
  }
  json.push_back('"');
}

void append_metadata(std::string& json,
                     const std::map<std::string, std::string, std::less<>>& metadata) {
  json += "\"__metadata__\":{";
  bool is_first = true;
  for (const auto& [key, value] : metadata) {
    TENZRO_ASSERT(is_valid_utf8(key));
    TENZRO_ASSERT(is_valid_utf8(value));
    if (!is_first) json.push_back(',');
    is_first = false;
    append_string(json, key);
    json.push_back(':');
    append_string(json, value);
  }
  json.push_back('}');
}

std::uint64_t bytes_by_shape(const TensorToWrite& tensor) {
  std::uint64_t bytes = bytes_of(tensor.dtype);
  for (const std::uint64_t dimension : tensor.shape) {
    const auto product = checked_mul(bytes, dimension);
    TENZRO_ASSERT(product.has_value());
    bytes = *product;
  }
  return bytes;
}

void append_tensor(std::string& json, const TensorToWrite& tensor, std::uint64_t begin) {
  append_string(json, tensor.name);
  json += R"(:{"dtype":")";
  json += name_of(tensor.dtype);
  json += R"(","shape":[)";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) json.push_back(',');
    json += std::to_string(tensor.shape[i]);
  }
  json += R"(],"data_offsets":[)";
  json += std::to_string(begin) + ',' + std::to_string(begin + tensor.data.size()) + "]}";
}

void check(std::span<const TensorToWrite> tensors) {
  TENZRO_ASSERT(tensors.size() <= kTensorsMax);
  std::set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    TENZRO_ASSERT(tensor.shape.size() <= kDimensionsMax);
    TENZRO_ASSERT(tensor.data.size() == bytes_by_shape(tensor));
    TENZRO_ASSERT(is_valid_utf8(tensor.name));
    TENZRO_ASSERT(tensor.name != "__metadata__");
    const bool is_new = names.insert(tensor.name).second;
    TENZRO_ASSERT(is_new);
  }
}

}  // namespace

std::vector<std::byte> write_safetensors(
    std::span<const TensorToWrite> tensors,
    const std::map<std::string, std::string, std::less<>>& metadata) {
  check(tensors);
  std::string json = "{";
  if (!metadata.empty()) append_metadata(json, metadata);
  std::uint64_t data_bytes = 0;
  for (const TensorToWrite& tensor : tensors) {
    if (json.size() > 1) json.push_back(',');
    append_tensor(json, tensor, data_bytes);
    data_bytes += tensor.data.size();
  }
  json.push_back('}');
  while (json.size() % kAlignment != 0) json.push_back(' ');
  TENZRO_ASSERT(json.size() <= kHeaderBytesMax);

  const std::uint64_t length = json.size();
  std::vector<std::byte> file(sizeof length + json.size() + data_bytes);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, json.data(), json.size());
  std::byte* to = file.data() + sizeof length + json.size();
  for (const TensorToWrite& tensor : tensors) {
    if (!tensor.data.empty()) std::memcpy(to, tensor.data.data(), tensor.data.size());
    to += tensor.data.size();
  }
  return file;
}

}  // namespace tenzro::tensor
