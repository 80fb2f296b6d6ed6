#include <algorithm>
#include <bit>
#include <optional>

#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/foreign_file.hpp"
#include "tenzro/tensor/gguf.hpp"

#include "gguf_cursor.hpp"
#include "gguf_values.hpp"

namespace tenzro::tensor {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kAlignmentMin = 8;
constexpr std::uint64_t kAlignmentMax = 1ULL << 20U;
/// The least a metadata entry and a tensor take: their counts cannot exceed what the file holds.
constexpr std::uint64_t kEntryBytesMin = 8 + 4 + 1;
constexpr std::uint64_t kTensorBytesMin = 8 + 4 + 8 + 4 + 8;
constexpr std::string_view kAlignmentKey = "general.alignment";

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

class Reader {
 public:
  Reader(std::span<const std::byte> prefix, std::uint64_t file_size)
      : cursor_(prefix), prefix_(prefix), file_size_(file_size) {}

  Result<GgufRead> read() {
    read_all();
    if (problem_) return fail(ErrorCode::runtime, "", "GGUF parse error: " + *problem_);
    if (cursor_.ran_out()) return next_prefix();
    return GgufRead(std::move(header_));
  }

 private:
  void refuse(std::string why) {
    if (!problem_) problem_ = std::move(why);
  }

  [[nodiscard]] bool going() const { return !problem_ && cursor_.ok(); }

  Result<GgufRead> next_prefix() const {
    if (prefix_.size() >= file_size_) {
      return fail(ErrorCode::runtime, "",
                  "GGUF parse error: the file is cut short: its header does not end within its " +
                      number(file_size_) + " bytes");
    }
    if (prefix_.size() >= kGgufHeaderBytesMax) {
      return fail(ErrorCode::runtime, "",
                  "GGUF parse error: header is larger than the limit of " +
                      number(kGgufHeaderBytesMax) + " bytes");
    }
    const std::uint64_t wanted = std::max<std::uint64_t>(4 * prefix_.size(), 1U << 16U);
    return GgufRead(std::min({wanted, file_size_, kGgufHeaderBytesMax}));
  }

  void read_all() {
    read_counts();
    for (std::uint64_t i = 0; i < entries_ && going(); ++i) read_entry();
    if (going()) read_alignment();
    for (std::uint64_t i = 0; i < tensors_ && going(); ++i) read_tensor();
    if (going()) place_tensors();
  }

  void read_counts() {
    const std::uint32_t magic = cursor_.number32();
    if (cursor_.ok() && magic != kMagic) return refuse(what_it_is());
    const std::uint32_t version = cursor_.number32();
    if (cursor_.ok() && version != 2 && version != 3) {
      return refuse("version " + number(version) + " is not supported (want 2 or 3)");
    }
    tensors_ = cursor_.number64();
    entries_ = cursor_.number64();
    if (!cursor_.ok()) return;
    if (tensors_ > kGgufTensorsMax || tensors_ > file_size_ / kTensorBytesMin) {
      return refuse(number(tensors_) + " tensors are more than the file can hold");
    }
    if (entries_ > kGgufMetadataMax || entries_ > file_size_ / kEntryBytesMin) {
      refuse(number(entries_) + " metadata entries are more than the file can hold");
    }
  }

  [[nodiscard]] std::string what_it_is() const {
    const std::string_view text(static_cast<const char*>(static_cast<const void*>(prefix_.data())),
                                std::min<std::size_t>(prefix_.size(), 64));
    if (const auto foreign = foreign_file(text)) return std::string(*foreign);
    return "the file does not begin with GGUF";
  }

  /// A key or a name; empty after a refusal.
  std::string read_name(std::string_view what) {
    const std::uint64_t length = cursor_.number64();
    if (!cursor_.ok()) return {};
    if (length == 0 || length > kGgufNameBytesMax) {
      refuse(std::string(what) + " of " + number(length) + " bytes (want 1 to " +
             number(kGgufNameBytesMax) + ")");
      return {};
    }
    const std::string_view text = cursor_.text(length);
    if (!cursor_.ok()) return {};
    if (!is_valid_utf8(text) || text.find('\0') != std::string_view::npos) {
      refuse(std::string(what) + " '" + echo(text) + "' is not plain UTF-8");
      return {};
    }
    return std::string(text);
  }

  void read_entry() {
    const std::string key = read_name("metadata key");
    const std::uint32_t kind = cursor_.number32();
    if (!going()) return;
    GgufValue value = read_value(key, kind);
    if (!going()) return;
    if (!header_.metadata.emplace(key, std::move(value)).second) {
      refuse("duplicate metadata key '" + echo(key) + "'");
    }
  }

  GgufValue read_value(const std::string& key, std::uint32_t kind) {
    if (kind == GgufCursor::string) return read_text();
    if (kind == GgufCursor::array) return read_array(key);
    const std::uint64_t size = bytes_of_kind(kind);
    if (size == 0) {
      refuse("metadata '" + echo(key) + "' has unknown type " + number(kind));
      return {};
    }
    const auto bytes = cursor_.take(size);
    return bytes.empty() ? GgufValue() : gguf_scalar(kind, bytes);
  }

  GgufValue read_text() {
    const std::uint64_t length = cursor_.number64();
    if (cursor_.ok() && length > file_size_) {
      refuse("a string of " + number(length) + " bytes is longer than the file");
    }
    if (!going()) return {};
    const std::string_view text = cursor_.text(length);
    if (length > kGgufTextBytesMax) return {};
    return std::string(text);
  }

  GgufValue read_array(const std::string& key) {
    const std::uint32_t kind = cursor_.number32();
    const std::uint64_t count = cursor_.number64();
    if (!cursor_.ok()) return {};
    const std::uint64_t size = bytes_of_kind(kind);
    if (size == 0 && kind != GgufCursor::string) {
      refuse("metadata '" + echo(key) + "' is an array of unknown type " + number(kind));
      return {};
    }
    // A string takes at least its length field.
    const auto least = checked_mul(count, size == 0 ? sizeof(std::uint64_t) : size);
    if (!least || *least > file_size_) {
      refuse("metadata '" + echo(key) + "' is an array larger than the file");
      return {};
    }
    if (size != 0) {
      const auto bytes = cursor_.take(*least);
      if (!bytes.empty() && count <= kGgufArrayMax) numbers_ += count;
      if (numbers_ > kGgufNumbersMax) {
        refuse("metadata '" + echo(key) + "' brings the numbers in arrays above " +
               number(kGgufNumbersMax));
        return {};
      }
      return gguf_numbers(kind, bytes);
    }
    for (std::uint64_t i = 0; i < count && cursor_.ok(); ++i) {
      static_cast<void>(cursor_.take(cursor_.number64()));
    }
    return {};
  }

  void read_alignment() {
    const auto found = header_.metadata.find(kAlignmentKey);
    if (found == header_.metadata.end()) return;
    const auto* value = std::get_if<std::uint64_t>(&found->second);
    if (value == nullptr || !std::has_single_bit(*value) || *value < kAlignmentMin ||
        *value > kAlignmentMax) {
      return refuse("general.alignment must be a power of two from " + number(kAlignmentMin) +
                    " to " + number(kAlignmentMax));
    }
    alignment_ = *value;
  }

  void read_tensor() {
    const std::string name = read_name("tensor name");
    const std::uint32_t dimensions = cursor_.number32();
    if (!going()) return;
    const std::string start = "tensor '" + echo(name) + "' ";
    if (dimensions == 0 || dimensions > kGgufDimensionsMax) {
      return refuse(start + "has " + number(dimensions) + " dimensions (want 1 to " +
                    number(kGgufDimensionsMax) + ")");
    }
    GgufTensor tensor;
    for (std::uint32_t i = 0; i < dimensions; ++i) tensor.shape.push_back(cursor_.number64());
    const std::uint32_t type = cursor_.number32();
    tensor.begin = cursor_.number64();
    if (!going()) return;
    const auto known = ggml_type_from_number(type);
    if (!known) return refuse(start + "has unknown type " + number(type));
    tensor.type = *known;
    const auto bytes = bytes_by_shape(tensor);
    if (!bytes)
      return refuse(start + "has a shape that no file can hold, or rows of no whole block");
    tensor.end = *bytes;  // a length until the data's beginning is known
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    if (!header_.tensors.emplace(name, std::move(tensor)).second) {
      refuse("duplicate tensor '" + echo(name) + "'");
    }
  }

  /// `shape` is still innermost first.
  static std::optional<std::uint64_t> bytes_by_shape(const GgufTensor& tensor) {
    const std::uint64_t row = tensor.shape.front();
    if (row % block_elements(tensor.type) != 0) return std::nullopt;
    auto bytes = checked_mul(row / block_elements(tensor.type), block_bytes(tensor.type));
    for (std::size_t i = 1; i < tensor.shape.size() && bytes; ++i) {
      bytes = checked_mul(*bytes, tensor.shape[i]);
    }
    return bytes == std::optional<std::uint64_t>(0) ? std::nullopt : bytes;
  }

  /// Turns offsets into absolute ranges and refuses what overlaps or leaves the file.
  void place_tensors() {
    const std::uint64_t data = (cursor_.at() + alignment_ - 1) / alignment_ * alignment_;
    std::vector<std::pair<const std::string*, GgufTensor*>> order;
    for (auto& [name, tensor] : header_.tensors) order.emplace_back(&name, &tensor);
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return a.second->begin < b.second->begin;
    });
    std::uint64_t covered = 0;
    for (const auto& [name, tensor] : order) {
      const std::string start = "tensor '" + echo(*name) + "' ";
      if (tensor->begin % alignment_ != 0) {
        return refuse(start + "lies at " + number(tensor->begin) + ", no multiple of " +
                      number(alignment_));
      }
      if (tensor->begin < covered) return refuse(start + "overlaps the tensor before it");
      const auto end = checked_add(tensor->begin, tensor->end);
      const auto last = end ? checked_add(*end, data) : std::nullopt;
      if (!last || *last > file_size_) {
        return refuse(start + "ends beyond the file's " + number(file_size_) +
                      " bytes: the file is cut short");
      }
      covered = *end;
      tensor->begin += data;
      tensor->end = *last;
    }
  }

  GgufCursor cursor_;
  std::span<const std::byte> prefix_;
  std::uint64_t file_size_ = 0;
  std::uint64_t tensors_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t numbers_ = 0;  ///< in arrays that are kept
  std::uint64_t alignment_ = kDefaultAlignment;
  GgufHeader header_;
  std::optional<std::string> problem_;
};

}  // namespace

Result<GgufRead> read_gguf_header(std::span<const std::byte> prefix, std::uint64_t file_size) {
  return Reader(prefix, file_size).read();
}

}  // namespace tenzro::tensor
