// The GGUF reader over headers that are whole, cut short, or wrong in one way.
#include "tenzro/tensor/gguf.hpp"

#include <array>
#include <bit>

#include <gtest/gtest.h>

#include "unit/tensor/golden_file.hpp"

namespace tenzro::tensor {
namespace {

/// Writes a GGUF file piece by piece.
class Writer {
 public:
  Writer(std::uint32_t version, std::uint64_t tensors, std::uint64_t entries) {
    text("GGUF");
    number(version);
    number(tensors);
    number(entries);
  }

  template <typename T>
  Writer& number(T value) {
    const auto bytes = std::bit_cast<std::array<char, sizeof value>>(value);
    bytes_.append(bytes.data(), bytes.size());
    return *this;
  }

  Writer& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }

  Writer& string(std::string_view value) {
    number(std::uint64_t{value.size()});
    return text(value);
  }

  Writer& entry(std::string_view key, std::uint32_t value) {
    string(key);
    number(std::uint32_t{4});
    return number(value);
  }

  Writer& tensor(std::string_view name, const std::vector<std::uint64_t>& dimensions,
                 std::uint32_t type, std::uint64_t offset) {
    string(name);
    number(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t one : dimensions) number(one);
    number(type);
    return number(offset);
  }

  /// Pads to `alignment` and adds so many bytes of data.
  Writer& data(std::size_t bytes, std::size_t alignment = 32) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    bytes_.resize(bytes_.size() + bytes);
    return *this;
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Result<GgufRead> read(const std::string& bytes) {
  return read_gguf_header(std::as_bytes(std::span(bytes)), bytes.size());
}

std::string error_of(const Writer& writer) {
  const auto result = read(writer.bytes());
  EXPECT_FALSE(result.has_value());
  return result ? "" : result.error().message();
}

const std::string kStart = "GGUF parse error: ";

TEST(Gguf, ReadsWhatGgmlWrote) {
  const auto file = test::read_data("gguf/two_experts.gguf");
  const auto result = read_gguf_header(file, file.size());
  ASSERT_TRUE(result) << result.error().message();
  const auto& header = std::get<GgufHeader>(*result);
  EXPECT_EQ(header.metadata.size(), 12U);
  EXPECT_EQ(std::get<std::string>(header.metadata.at("general.name")), "two experts");
  EXPECT_EQ(std::get<std::uint64_t>(header.metadata.at("qwen3moe.expert_count")), 2U);
  EXPECT_EQ(std::get<bool>(header.metadata.at("tokenizer.ggml.add_bos_token")), true);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(header.metadata.at("tokenizer.ggml.tokens")));
  ASSERT_EQ(header.tensors.size(), 5U);
  const GgufTensor& gate = header.tensors.at("blk.0.ffn_gate_exps.weight");
  EXPECT_EQ(gate.type, GgmlType::q4_k);
  EXPECT_EQ(gate.shape, (std::vector<std::uint64_t>{2, 256, 256}));
  EXPECT_EQ(gate.end - gate.begin, 2U * 256 * 144);
  EXPECT_EQ(gate.begin % 64, 0U);
}

TEST(Gguf, EveryPrefixIsReadOrAskedToBeLongerAndTheWholeCutShortIsRefused) {
  const auto file = test::read_data("gguf/two_experts.gguf");
  std::size_t asked = 0;
  for (std::size_t length = 0; length < 1200; ++length) {
    const auto prefix = std::span(file).first(length);
    const auto result = read_gguf_header(prefix, file.size());
    ASSERT_TRUE(result) << length << ": " << result.error().message();
    const auto* more = std::get_if<std::uint64_t>(&*result);
    if (more == nullptr) continue;
    ++asked;
    ASSERT_GT(*more, length);
    ASSERT_LE(*more, file.size());
    const auto cut = read_gguf_header(prefix, length);
    ASSERT_FALSE(cut) << length;
  }
  EXPECT_GT(asked, 500U);
}

TEST(Gguf, OtherFilesAreSaidToBeWhatTheyAre) {
  EXPECT_EQ(read("<!doctype html><html></html>").error().message(),
            kStart + "the file is an HTML page");
  EXPECT_EQ(read("version https://git-lfs.github.com/spec/v1\n").error().message(),
            kStart + "the file is a git LFS pointer, not the data it names");
  EXPECT_EQ(read("PK\x03\x04 and more of it").error().message(),
            kStart + "the file does not begin with GGUF");
  EXPECT_EQ(error_of(Writer(1, 0, 0)), kStart + "version 1 is not supported (want 2 or 3)");
}

TEST(Gguf, CountsThatTheFileCannotHoldAreRefusedBeforeAnythingIsAllocated) {
  EXPECT_EQ(error_of(Writer(3, 1ULL << 60U, 0)),
            kStart + "1152921504606846976 tensors are more than the file can hold");
  EXPECT_EQ(error_of(Writer(3, 0, 1ULL << 60U)),
            kStart + "1152921504606846976 metadata entries are more than the file can hold");
  Writer array(3, 0, 1);
  array.string("list").number(std::uint32_t{9}).number(std::uint32_t{10}).number(1ULL << 61U);
  EXPECT_EQ(error_of(array), kStart + "metadata 'list' is an array larger than the file");
  Writer string(3, 0, 1);
  string.string("word").number(std::uint32_t{8}).number(1ULL << 62U);
  EXPECT_EQ(error_of(string),
            kStart + "a string of 4611686018427387904 bytes is longer than the file");
}

TEST(Gguf, MetadataIsRefusedByItsKey) {
  Writer twice(3, 0, 2);
  twice.entry("a", 1).entry("a", 2).data(64);
  EXPECT_EQ(error_of(twice), kStart + "duplicate metadata key 'a'");
  Writer unknown(3, 0, 1);
  unknown.string("a").number(std::uint32_t{13}).data(64);
  EXPECT_EQ(error_of(unknown), kStart + "metadata 'a' has unknown type 13");
  Writer nested(3, 0, 1);
  nested.string("a").number(std::uint32_t{9}).number(std::uint32_t{9}).number(std::uint64_t{1});
  nested.data(64);
  EXPECT_EQ(error_of(nested), kStart + "metadata 'a' is an array of unknown type 9");
  Writer empty(3, 0, 1);
  empty.string("").data(64);
  EXPECT_EQ(error_of(empty), kStart + "metadata key of 0 bytes (want 1 to 4096)");
  Writer broken(3, 0, 1);
  broken.entry("\xff", 1).data(64);
  EXPECT_EQ(error_of(broken), kStart + "metadata key '\\xff' is not plain UTF-8");
}

/// A file of nothing but arrays of bytes.
Writer of_arrays(std::uint64_t arrays, std::size_t numbers) {
  Writer writer(3, 0, arrays);
  for (std::uint64_t i = 0; i < arrays; ++i) {
    writer.string("a" + std::to_string(i)).number(std::uint32_t{9}).number(std::uint32_t{0});
    writer.string(std::string(numbers, '\7'));
  }
  return writer.data(32);
}

TEST(Gguf, ArraysThatTogetherWouldTakeFarMoreThanTheFileAreRefused) {
  const std::size_t most = kGgufNumbersMax / kGgufArrayMax;
  const auto kept = read(of_arrays(most, kGgufArrayMax).bytes());
  ASSERT_TRUE(kept) << kept.error().message();
  std::size_t numbers = 0;
  for (const auto& [key, value] : std::get<GgufHeader>(*kept).metadata)
    numbers += std::get<std::vector<double>>(value).size();
  EXPECT_EQ(numbers, kGgufNumbersMax);
  EXPECT_EQ(error_of(of_arrays(most + 1, kGgufArrayMax)),
            kStart + "metadata 'a16' brings the numbers in arrays above 65536");
  // Longer ones are not kept, however many there are.
  const auto skipped = read(of_arrays(most + 1, kGgufArrayMax + 1).bytes());
  ASSERT_TRUE(skipped) << skipped.error().message();
  for (const auto& [key, value] : std::get<GgufHeader>(*skipped).metadata)
    EXPECT_TRUE(std::holds_alternative<std::monostate>(value)) << key;
}

TEST(Gguf, AlignmentIsAPowerOfTwo) {
  for (const std::uint32_t bad : {0U, 3U, 4U, 48U, 1U << 21U}) {
    Writer writer(3, 0, 1);
    writer.entry("general.alignment", bad).data(64);
    EXPECT_EQ(error_of(writer),
              kStart + "general.alignment must be a power of two from 8 to 1048576")
        << bad;
  }
}

struct BadTensor {
  std::vector<std::uint64_t> dimensions;
  std::uint32_t type;
  std::uint64_t offset;
  const char* error;
};

TEST(Gguf, TensorsAreRefusedByName) {
  constexpr std::uint64_t kHuge = 1ULL << 62U;
  const BadTensor cases[] = {
      {{}, 0, 0, "has 0 dimensions (want 1 to 4)"},
      {{1, 1, 1, 1, 1}, 0, 0, "has 5 dimensions (want 1 to 4)"},
      {{32}, 99, 0, "has unknown type 99"},
      {{32}, 4, 0, "has unknown type 4"},
      {{31}, 8, 0, "has a shape that no file can hold, or rows of no whole block"},
      {{0}, 0, 0, "has a shape that no file can hold, or rows of no whole block"},
      {{32, 0}, 0, 0, "has a shape that no file can hold, or rows of no whole block"},
      {{kHuge, kHuge}, 0, 0, "has a shape that no file can hold, or rows of no whole block"},
      {{4, kHuge, 4, 4}, 0, 0, "has a shape that no file can hold, or rows of no whole block"},
      {{32}, 0, 16, "lies at 16, no multiple of 32"},
      {{1024}, 0, 0, "ends beyond the file's 448 bytes: the file is cut short"},
      {{32}, 0, ~std::uint64_t{31}, "ends beyond the file's 448 bytes: the file is cut short"},
  };
  for (const BadTensor& one : cases) {
    Writer writer(3, 1, 0);
    writer.tensor("w", one.dimensions, one.type, one.offset);
    std::string bytes = writer.bytes();
    bytes.resize(448);
    const auto result = read(bytes);
    ASSERT_FALSE(result) << one.error;
    EXPECT_EQ(result.error().message(), kStart + "tensor 'w' " + one.error);
  }
}

TEST(Gguf, TensorsThatOverlapOrRepeatANameAreRefused) {
  Writer overlap(3, 2, 0);
  overlap.tensor("a", {32}, 0, 0).tensor("b", {32}, 0, 64).data(256);
  EXPECT_EQ(error_of(overlap), kStart + "tensor 'b' overlaps the tensor before it");
  Writer twice(3, 2, 0);
  twice.tensor("a", {32}, 0, 0).tensor("a", {32}, 0, 128).data(256);
  EXPECT_EQ(error_of(twice), kStart + "duplicate tensor 'a'");
}

TEST(Gguf, DimensionsAreGivenOutermostFirst) {
  Writer writer(3, 1, 0);
  writer.tensor("w", {32, 3, 2}, 0, 0).data(768);
  const auto result = read(writer.bytes());
  ASSERT_TRUE(result) << result.error().message();
  const auto& tensor = std::get<GgufHeader>(*result).tensors.at("w");
  EXPECT_EQ(tensor.shape, (std::vector<std::uint64_t>{2, 3, 32}));
  EXPECT_EQ(tensor.end - tensor.begin, 768U);
}

}  // namespace
}  // namespace tenzro::tensor
