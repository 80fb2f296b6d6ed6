#include <algorithm>
#include <optional>

#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/foreign_file.hpp"
#include "tenzro/tensor/safetensors.hpp"

#include "safetensors_header_reader.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

tl::unexpected<Error> refused(const std::string& problem) {
  return fail(ErrorCode::runtime, "", "safetensors parse error: " + problem);
}

std::string text_of(std::uint64_t number) {
  return std::to_string(number);
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size()};
}

/// Bytes the shape and type of a tensor ask for. The product is taken over the dimensions other
/// than zero too, so that no partial product of an accepted shape can overflow for a caller.
std::optional<std::uint64_t> bytes_by_shape(const TensorInfo& tensor) {
  std::uint64_t bytes = bytes_of(tensor.dtype);
  bool is_empty = false;
  for (const std::uint64_t dimension : tensor.shape) {
    if (dimension == 0) {
      is_empty = true;
      continue;
    }
    const auto product = checked_mul(bytes, dimension);
    if (!product) return std::nullopt;
    bytes = *product;
  }
  return is_empty ? 0 : bytes;
}

Status check_tensor(const std::string& name, const TensorInfo& tensor, std::uint64_t data_bytes) {
  const std::string start = "tensor " + in_quotes(name) + ": ";
  if (tensor.begin > tensor.end) return refused(start + "data_offsets end before they begin");
  const auto wanted = bytes_by_shape(tensor);
  if (!wanted) return refused(start + "shape is larger than 2^64 bytes");
  if (*wanted != tensor.bytes()) {
    return refused(start + "shape needs " + text_of(*wanted) + " bytes, data_offsets span " +
                   text_of(tensor.bytes()));
  }
  if (tensor.end > data_bytes) {
    return refused(start + "ends at byte " + text_of(tensor.end) + " of " + text_of(data_bytes) +
                   ": the file is cut short");
  }
  return {};
}

using Entry = std::map<std::string, TensorInfo, std::less<>>::value_type;

/// Refuses overlaps, gaps and bytes that belong to no tensor.
Status check_layout(const SafetensorsHeader& header, std::uint64_t data_bytes) {
  std::vector<const Entry*> order;
  order.reserve(header.tensors.size());
  for (const Entry& entry : header.tensors) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t covered = 0;
  for (const Entry* entry : order) {
    const auto& [name, tensor] = *entry;
    if (tensor.begin < covered) {
      return refused("tensor " + in_quotes(name) + ": overlaps the tensor before it");
    }
    if (tensor.begin > covered) {
      return refused("tensor " + in_quotes(name) + ": leaves a gap of " +
                     text_of(tensor.begin - covered) + " bytes before it");
    }
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    return refused("the last " + text_of(data_bytes - covered) + " bytes belong to no tensor");
  }
  return {};
}

Status check_header_length(std::uint64_t length, std::uint64_t file_size) {
  if (length > kHeaderBytesMax) {
    return refused("header of " + text_of(length) + " bytes is larger than the limit of " +
                   text_of(kHeaderBytesMax));
  }
  if (file_size < kLengthBytes || length > file_size - kLengthBytes) {
    return refused("header of " + text_of(length) + " bytes does not fit a file of " +
                   text_of(file_size) + " bytes: the file is cut short");
  }
  return {};
}

}  // namespace

const TensorInfo* SafetensorsHeader::find(std::string_view name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

Result<std::uint64_t> safetensors_header_length(std::span<const std::byte> prefix,
                                                std::uint64_t file_size) {
  const std::uint64_t size = std::min<std::uint64_t>(prefix.size(), file_size);
  const std::uint64_t length = size < kLengthBytes ? 0 : load_u64_le(prefix.data());
  // As a length any text exceeds the limit.
  if (size < kLengthBytes || length > kHeaderBytesMax) {
    if (const auto foreign = foreign_file(as_text(prefix))) return refused(std::string(*foreign));
  }
  if (size < kLengthBytes) {
    return refused("the file is cut short: " + text_of(size) +
                   " bytes, and the header length alone takes 8");
  }
  if (Status status = check_header_length(length, file_size); !status) {
    return fail(std::move(status.error()));
  }
  return length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> header,
                                                   std::uint64_t file_size) {
  if (Status status = check_header_length(header.size(), file_size); !status) {
    return fail(std::move(status.error()));
  }
  const std::string_view json = as_text(header);
  if (json.empty()) return refused("header is empty");
  if (!is_valid_utf8(json)) return refused("header is not UTF-8");
  // The JSON parser skips a byte order mark and takes a NUL for the end: neither is JSON.
  if (json.front() != '{') return refused("header is not a JSON object");
  if (json.find('\0') != std::string_view::npos) return refused("header holds a NUL byte");
  SafetensorsHeaderReader reader;
  if (!reader.read(json)) return refused(reader.problem());
  const std::uint64_t data_begin = kLengthBytes + header.size();
  const std::uint64_t data_bytes = file_size - data_begin;
  SafetensorsHeader& parsed = reader.header();
  for (const auto& [name, tensor] : parsed.tensors) {
    if (Status status = check_tensor(name, tensor, data_bytes); !status) {
      return fail(std::move(status.error()));
    }
  }
  if (Status status = check_layout(parsed, data_bytes); !status) {
    return fail(std::move(status.error()));
  }
  for (auto& [name, tensor] : parsed.tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  return std::move(parsed);
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file) {
  const Result<std::uint64_t> length = safetensors_header_length(file, file.size());
  if (!length) return fail(length.error());
  return parse_safetensors_header(file.subspan(kLengthBytes, *length), file.size());
}

}  // namespace tenzro::tensor
