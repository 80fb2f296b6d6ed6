#pragma once
/// \file
/// Strict reader of a GGUF file's header: its metadata and where its tensors lie.
///
/// A file is: magic "GGUF", u32 version, u64 tensor count, u64 metadata count, the metadata (a
/// string key, a u32 type, the value), the tensors (a string name, u32 dimension count, u64
/// dimensions innermost first, u32 type, u64 offset into the data), padding to the alignment
/// (`general.alignment`, 32 where absent), then the tensors' bytes. Little-endian throughout; a
/// string is a u64 length and its bytes.
/// Rules (each one an error that names the key or tensor at fault)
///  - Version 2 or 3; keys and names are UTF-8 without NUL, at most kGgufNameBytesMax bytes; no key
///    and no name twice.
///  - At most kGgufTensorsMax tensors, kGgufMetadataMax entries, four dimensions, none of them
///  zero;
///    products are checked against overflow, and the innermost divides by the type's block.
///  - An unknown tensor type or metadata type is refused, never skipped.
///  - The alignment is a power of two from 8 to 2^20; offsets are multiples of it, lie in order
///    without overlap, and end inside the file.
///  - Counts and lengths are compared with the bytes that are there before anything is allocated.
///  - A file that begins as something else (a web page, a pointer file) is said to be that.
/// Arrays of numbers are kept up to kGgufArrayMax of them: one for each layer is what they are for.
/// A file whose arrays hold more than kGgufNumbersMax that are kept is refused: each takes eight
/// bytes here, and one in the file. Other arrays are skipped, strings longer than kGgufTextBytesMax
/// too (their key is kept, with no value): nothing here needs a vocabulary. A header is read from a
/// prefix of the file: `more_needed` is the answer where the prefix ends first, with how many bytes
/// to try next. Pure: bytes in, values out. Cost: O(prefix).
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/tensor/ggml_type.hpp"

namespace tenzro::tensor {

inline constexpr std::uint64_t kGgufHeaderBytesMax = 256ULL << 20U;
inline constexpr std::uint64_t kGgufTensorsMax = 100'000;
inline constexpr std::uint64_t kGgufMetadataMax = 65'536;
inline constexpr std::uint64_t kGgufNameBytesMax = 4096;
inline constexpr std::uint64_t kGgufTextBytesMax = 65'536;
inline constexpr std::uint64_t kGgufArrayMax = 4096;
inline constexpr std::uint64_t kGgufNumbersMax = 65'536;
inline constexpr std::uint32_t kGgufDimensionsMax = 4;

struct GgufTensor {
  GgmlType type = GgmlType::f32;
  /// Outermost first, as safetensors has it: rows before columns.
  std::vector<std::uint64_t> shape;
  /// Byte range in the file, absolute.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// What is skipped has no value (monostate).
using GgufValue = std::variant<std::monostate, std::uint64_t, std::int64_t, double, bool,
                               std::string, std::vector<double>>;

struct GgufHeader {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::map<std::string, GgufTensor, std::less<>> tensors;
};

/// The header, or how many bytes of the file to try next (more than `prefix` has).
using GgufRead = std::variant<GgufHeader, std::uint64_t>;

/// `prefix`: the first bytes of a file of `file_size` bytes. Error: runtime, "GGUF parse error: …".
[[nodiscard]] Result<GgufRead> read_gguf_header(std::span<const std::byte> prefix,
                                                std::uint64_t file_size);

}  // namespace tenzro::tensor
