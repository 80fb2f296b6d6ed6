#pragma once
/// \file
/// Strict safetensors reader and writer.
///
/// A file is: u64 little-endian header length, that many bytes of UTF-8 JSON, then the tensors'
/// bytes. Rules (each one an error that names the tensor or key at fault)
///  - Header length <= file size - 8 and <= kHeaderBytesMax; UTF-8; a JSON object without duplicate
///  keys
///    at any level; no key of a tensor but dtype, shape, data_offsets; `__metadata__` maps strings
///    to strings.
///  - Offsets are contiguous from 0, cover the rest of the file exactly, and do not overlap.
///  - bytes == product(shape) * dtype size, checked against overflow. Zero-size tensors are legal.
///  - At most kTensorsMax tensors, kDimensionsMax dimensions, kMetadataEntriesMax metadata entries.
///  - An HTML page, a git LFS pointer and a short file are said to be that.
/// Cost: header parse O(header); tensor bytes are never touched. Pure: bytes in, views out.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/tensor/dtype.hpp"

namespace tenzro::tensor {

inline constexpr std::uint64_t kHeaderBytesMax = 100ULL << 20U;
inline constexpr std::size_t kTensorsMax = 1'000'000;
inline constexpr std::size_t kDimensionsMax = 8;
inline constexpr std::size_t kMetadataEntriesMax = 65'536;

struct TensorInfo {
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;
  /// Byte range in the file, absolute (header included).
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::map<std::string, TensorInfo, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;

  [[nodiscard]] const TensorInfo* find(std::string_view name) const;
};

/// Length of the JSON header, from the first 8 bytes (or fewer: an error) of a file of `file_size`
/// bytes. `prefix` may be longer: the first bytes are used to recognise HTML pages and LFS
/// pointers.
[[nodiscard]] Result<std::uint64_t> safetensors_header_length(std::span<const std::byte> prefix,
                                                              std::uint64_t file_size);
/// Parses the JSON header (`header` excludes the 8 length bytes) of a file of `file_size` bytes.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> header,
                                                                 std::uint64_t file_size);
/// Both steps over a whole file in memory.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file);

/// "[2, 3]", as error texts have it.
[[nodiscard]] std::string shape_text(std::span<const std::uint64_t> shape);

/// One tensor to be written; `data` must hold product(shape) * bytes_of(dtype) bytes. Names are
/// UTF-8 and distinct.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> data;
};

/// A whole file: tensors in the given order, metadata in key order, header padded with spaces to 8
/// bytes. The bytes are a function of the arguments alone, so equal inputs hash equal.
[[nodiscard]] std::vector<std::byte> write_safetensors(
    std::span<const TensorToWrite> tensors,
    const std::map<std::string, std::string, std::less<>>& metadata);

}  // namespace tenzro::tensor
