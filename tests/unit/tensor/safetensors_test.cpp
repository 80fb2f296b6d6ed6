#include "tenzro/tensor/safetensors.hpp"

#include <cstring>

#include <gtest/gtest.h>

#include "unit/tensor/golden_file.hpp"

namespace tenzro::tensor {
namespace {

using Metadata = std::map<std::string, std::string, std::less<>>;

std::vector<std::byte> as_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A file with this JSON header and `data_bytes` zero bytes of tensors.
std::vector<std::byte> file_of(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> file(sizeof length + header.size() + data_bytes);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, header.data(), header.size());
  return file;
}

std::string problem_of(const std::vector<std::byte>& file) {
  const Result<SafetensorsHeader> header = parse_safetensors(file);
  if (header) return "accepted";
  EXPECT_EQ(header.error().code, ErrorCode::runtime);
  EXPECT_EQ(header.error().where, "");
  const std::string message = header.error().message();
  constexpr std::string_view kStart = "safetensors parse error: ";
  EXPECT_TRUE(message.starts_with(kStart)) << message;
  return message.substr(kStart.size());
}

std::string text_of(std::span<const std::byte> bytes) {
  std::string text(bytes.size(), '\0');
  if (!bytes.empty()) std::memcpy(text.data(), bytes.data(), bytes.size());
  return text;
}

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  const std::vector<float> a{1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  const std::vector<std::uint8_t> b{7, 8, 9};
  const std::vector<TensorToWrite> tensors{
      {"z.weight", DType::f32, {2, 3}, std::as_bytes(std::span(a))},
      {"empty", DType::bf16, {0, 4}, {}},
      {"a \"quoted\" \\ name\n", DType::u8, {3}, std::as_bytes(std::span(b))},
      {"scalar", DType::f32, {}, std::as_bytes(std::span(a).first(1))},
  };
  const Metadata metadata{{"tenzro.ffn", R"({"activation":"silu"})"}, {"k", "é\t"}};
  const std::vector<std::byte> file = write_safetensors(tensors, metadata);
  const Result<SafetensorsHeader> header = parse_safetensors(file);
  ASSERT_TRUE(header.has_value()) << header.error().message();
  EXPECT_EQ(header->metadata, metadata);
  ASSERT_EQ(header->tensors.size(), tensors.size());
  for (const TensorToWrite& tensor : tensors) {
    const TensorInfo* info = header->find(tensor.name);
    ASSERT_NE(info, nullptr) << tensor.name;
    EXPECT_EQ(info->dtype, tensor.dtype);
    EXPECT_EQ(info->shape, tensor.shape);
    EXPECT_EQ(text_of(std::span(file).subspan(info->begin, info->bytes())), text_of(tensor.data));
  }
  EXPECT_EQ(header->find("z.weights"), nullptr);
}

TEST(Safetensors, WrittenBytesAreTheDocumentedOnes) {
  const std::vector<std::uint8_t> data{1, 2};
  const std::vector<TensorToWrite> tensors{
      {"b", DType::u8, {1}, std::as_bytes(std::span(data).first(1))},
      {"a", DType::u8, {1, 1}, std::as_bytes(std::span(data).last(1))}};
  const std::string json =
      R"({"__metadata__":{"x":"\u000ay","z":"w"},"b":{"dtype":"U8","shape":[1],)"
      R"("data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1,1],"data_offsets":[1,2]}})";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  std::vector<std::byte> want = file_of(padded, 2);
  want[want.size() - 2] = std::byte{1};
  want[want.size() - 1] = std::byte{2};
  EXPECT_EQ(text_of(write_safetensors(tensors, {{"z", "w"}, {"x", "\ny"}})), text_of(want));
  EXPECT_EQ(write_safetensors({}, {}).size(), 16U);
}

TEST(SafetensorsDeathTest, WritingATensorOfTheWrongSizeIsABug) {
  const std::vector<std::byte> data(3);
  const std::vector<TensorToWrite> wrong{{"a", DType::f32, {1}, data}};
  EXPECT_DEATH((void)write_safetensors(wrong, {}), "bytes_by_shape");
  const std::vector<TensorToWrite> twice{{"a", DType::u8, {3}, data}, {"a", DType::u8, {3}, data}};
  EXPECT_DEATH((void)write_safetensors(twice, {}), "is_new");
}

TEST(Safetensors, AFileOfAnotherWriterIsRead) {
  const auto file = test::read_data("formats/checkpoint_formats.safetensors");
  const Result<SafetensorsHeader> header = parse_safetensors(file);
  ASSERT_TRUE(header.has_value()) << header.error().message();
  EXPECT_EQ(header->metadata.at("transformers"), "5.12.1");
  const TensorInfo* scale = header->find("fp8_block128_ue8m0.scale");
  ASSERT_NE(scale, nullptr);
  EXPECT_EQ(scale->dtype, DType::f8_e8m0);
  EXPECT_EQ(scale->shape, (std::vector<std::uint64_t>{1, 2}));
}

TEST(Safetensors, TheHeaderAloneIsEnough) {
  const std::string json = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto file = file_of(json, 8);
  const auto length = safetensors_header_length(std::span(file).first(8), file.size());
  ASSERT_TRUE(length.has_value());
  EXPECT_EQ(*length, json.size());
  const auto header = parse_safetensors_header(std::span(file).subspan(8, *length), file.size());
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->find("a")->begin, 8 + json.size());
  EXPECT_EQ(header->find("a")->end, file.size());
}

struct Accepted {
  const char* title;
  std::string header;
  std::size_t data_bytes;
};

class SafetensorsAccepted : public testing::TestWithParam<Accepted> {};

TEST_P(SafetensorsAccepted, IsRead) {
  EXPECT_EQ(problem_of(file_of(GetParam().header, GetParam().data_bytes)), "accepted");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, SafetensorsAccepted,
    testing::Values(
        Accepted{"NoTensors", "{}", 0}, Accepted{"PaddedWithSpaces", "{}      ", 0},
        Accepted{"EmptyMetadata", R"({"__metadata__":{}})", 0},
        Accepted{"ZeroSizeTensor", R"({"a":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]}})",
                 0},
        Accepted{"ZeroSizeTensorBetweenOthers",
                 R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                 R"("e":{"dtype":"F32","shape":[0],"data_offsets":[2,2]},)"
                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                 4},
        Accepted{"Scalar", R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4},
        Accepted{"EightDimensions",
                 R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1},
        Accepted{"TensorsNotInOffsetOrder",
                 R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},)"
                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                 4},
        Accepted{"MembersInAnyOrder", R"({"a":{"data_offsets":[0,1],"shape":[1],"dtype":"BOOL"}})",
                 1},
        Accepted{"SameKeyInDifferentObjects",
                 R"({"__metadata__":{"a":"dtype","dtype":"a"},)"
                 R"("dtype":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                 1}),
    [](const auto& accepted) { return accepted.param.title; });

struct Refused {
  const char* title;
  std::string header;
  std::size_t data_bytes;
  std::string problem;
};

class SafetensorsRefused : public testing::TestWithParam<Refused> {};

TEST_P(SafetensorsRefused, SaysWhy) {
  EXPECT_EQ(problem_of(file_of(GetParam().header, GetParam().data_bytes)), GetParam().problem);
}

/// A tensor object with these members, in a header by itself.
std::string tensor_a(std::string_view members) {
  return R"({"a":{)" + std::string(members) + "}}";
}

INSTANTIATE_TEST_SUITE_P(
    Layout, SafetensorsRefused,
    testing::Values(
        Refused{"Overlap",
                R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                4, R"(tensor "b": overlaps the tensor before it)"},
        Refused{"SameBytesTwice",
                R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                4, R"(tensor "b": overlaps the tensor before it)"},
        Refused{"EmptyTensorInsideAnother",
                R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
                4, R"(tensor "b": overlaps the tensor before it)"},
        Refused{"Gap",
                R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                5, R"(tensor "b": leaves a gap of 2 bytes before it)"},
        Refused{"NotFromZero", tensor_a(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2,
                R"(tensor "a": leaves a gap of 1 bytes before it)"},
        Refused{"BytesLeftOver", tensor_a(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 4,
                "the last 3 bytes belong to no tensor"},
        Refused{"BytesWithoutTensors", "{}", 1, "the last 1 bytes belong to no tensor"},
        Refused{"DataCutShort", tensor_a(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 7,
                R"(tensor "a": ends at byte 8 of 7: the file is cut short)"},
        Refused{"OffsetsBackwards", tensor_a(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1,
                R"(tensor "a": data_offsets end before they begin)"},
        Refused{"ShapeLargerThanOffsets",
                tensor_a(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4,
                R"(tensor "a": shape needs 8 bytes, data_offsets span 4)"},
        Refused{"ShapeOverflows",
                tensor_a(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0,
                R"(tensor "a": shape is larger than 2^64 bytes)"},
        Refused{"ShapeTimesDtypeOverflows",
                tensor_a(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])"), 0,
                R"(tensor "a": shape is larger than 2^64 bytes)"},
        Refused{"OverflowHiddenByAZero",
                tensor_a(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"),
                0, R"(tensor "a": shape is larger than 2^64 bytes)"}),
    [](const auto& refused) { return refused.param.title; });

INSTANTIATE_TEST_SUITE_P(
    Document, SafetensorsRefused,
    testing::Values(
        Refused{"Empty", "", 0, "header is empty"},
        Refused{"NotAnObject", "[]", 0, "header is not a JSON object"},
        Refused{"LeadingSpace", " {}", 0, "header is not a JSON object"},
        Refused{"ByteOrderMark", "\xEF\xBB\xBF{}", 0, "header is not a JSON object"},
        Refused{"TwoDocuments", "{}{}", 0, "header is not JSON at byte 3"},
        Refused{"NulPadding", std::string("{}\0\0", 4), 0, "header holds a NUL byte"},
        Refused{"CutJson", R"({"a":{"dtype")", 0, "header ends amid its JSON"},
        Refused{"Comment", "{}/**/", 0, "header is not JSON at byte 3"},
        Refused{"TrailingComma", R"({"__metadata__":{},})", 0, "header is not JSON at byte 20"},
        Refused{"InvalidUtf8", "{\"\xC0\x80\":1}", 0, "header is not UTF-8"},
        Refused{"LoneSurrogateEscape", R"({"\ud800":1})", 0, "header is not JSON at byte 9"},
        Refused{"DuplicateTensor",
                R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                0, R"(duplicate key "a")"},
        Refused{"DuplicateTensorByEscape",
                R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                R"("\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                0, R"(duplicate key "a")"},
        Refused{"DuplicateMetadata", R"({"__metadata__":{},"__metadata__":{}})", 0,
                R"(duplicate key "__metadata__")"},
        Refused{"DuplicateMetadataKey", R"({"__metadata__":{"k":"v","k":"v"}})", 0,
                R"(duplicate metadata key "k")"},
        Refused{"MetadataNotAnObject", R"({"__metadata__":"x"})", 0,
                "__metadata__ is not an object"},
        Refused{"MetadataNumber", R"({"__metadata__":{"k":1}})", 0,
                R"(metadata value of "k" is not a string)"},
        Refused{"MetadataNested", R"({"__metadata__":{"k":{}}})", 0,
                R"(metadata value of "k" is not a string)"},
        Refused{"TensorNotAnObject", R"({"a":[0]})", 0, R"(tensor "a" is not an object)"},
        Refused{"TensorNull", R"({"a":null})", 0, R"(tensor "a" is not an object)"},
        Refused{"ControlCharactersOfANameAreEscaped", R"({"a\nb":true})", 0,
                R"(tensor "a\x0ab" is not an object)"}),
    [](const auto& refused) { return refused.param.title; });

INSTANTIATE_TEST_SUITE_P(
    Tensor, SafetensorsRefused,
    testing::Values(
        Refused{"UnknownDtype", tensor_a(R"("dtype":"F4","shape":[1],"data_offsets":[0,1])"), 1,
                R"(tensor "a": dtype "F4" is not supported)"},
        Refused{"DtypeNotAString", tensor_a(R"("dtype":1,"shape":[1],"data_offsets":[0,1])"), 1,
                R"(tensor "a": dtype is not a string)"},
        Refused{"DuplicateMember",
                tensor_a(R"("dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1])"), 1,
                R"(tensor "a": duplicate key "shape")"},
        Refused{"UnknownMember",
                tensor_a(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1])"), 1,
                R"(tensor "a": unknown key "strides")"},
        Refused{"MissingDtype", tensor_a(R"("shape":[1],"data_offsets":[0,1])"), 1,
                R"(tensor "a": dtype is missing)"},
        Refused{"MissingShape", tensor_a(R"("dtype":"U8","data_offsets":[0,1])"), 1,
                R"(tensor "a": shape is missing)"},
        Refused{"MissingOffsets", tensor_a(R"("dtype":"U8","shape":[1])"), 1,
                R"(tensor "a": data_offsets are missing)"},
        Refused{"NineDimensions",
                tensor_a(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"), 1,
                R"(tensor "a": more than 8 dimensions)"},
        Refused{"NegativeDimension", tensor_a(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"),
                1, R"(tensor "a": shape holds something else than integers from 0 to 2^64-1)"},
        Refused{"FloatDimension", tensor_a(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1,
                R"(tensor "a": shape holds something else than integers from 0 to 2^64-1)"},
        Refused{"StringDimension", tensor_a(R"("dtype":"U8","shape":["1"],"data_offsets":[0,1])"),
                1, R"(tensor "a": shape holds something else than integers from 0 to 2^64-1)"},
        Refused{"HugeDimension",
                tensor_a(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1])"), 1,
                R"(tensor "a": shape holds something else than integers from 0 to 2^64-1)"},
        Refused{"ShapeNotAnArray", tensor_a(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), 1,
                R"(tensor "a": shape is not an array)"},
        Refused{"NestedShape", tensor_a(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), 1,
                R"(tensor "a": shape holds something else than integers from 0 to 2^64-1)"},
        Refused{"NegativeOffset", tensor_a(R"("dtype":"U8","shape":[1],"data_offsets":[-1,0])"), 1,
                R"(tensor "a": data_offsets hold something else than integers from 0 to 2^64-1)"},
        Refused{"FloatOffset", tensor_a(R"("dtype":"U8","shape":[1],"data_offsets":[0,1e0])"), 1,
                R"(tensor "a": data_offsets hold something else than integers from 0 to 2^64-1)"},
        Refused{"OneOffset", tensor_a(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1,
                R"(tensor "a": data_offsets hold less than two numbers)"},
        Refused{"ThreeOffsets", tensor_a(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1,
                R"(tensor "a": data_offsets hold more than two numbers)"}),
    [](const auto& refused) { return refused.param.title; });

TEST(Safetensors, DeepNestingIsRefusedWithoutRecursion) {
  const std::string deep = R"({"a":{"dtype":"U8","shape":)" + std::string(1'000'000, '[');
  EXPECT_EQ(problem_of(file_of(deep, 0)),
            R"(tensor "a": shape holds something else than integers from 0 to 2^64-1)");
  EXPECT_EQ(problem_of(file_of("{\"a\":" + std::string(1'000'000, '['), 0)),
            R"(tensor "a" is not an object)");
}

TEST(Safetensors, MoreMetadataEntriesThanTheLimitAreRefused) {
  std::string json = R"({"__metadata__":{"0":"")";
  for (std::size_t i = 1; i < kMetadataEntriesMax; ++i)
    json += ",\"" + std::to_string(i) + "\":\"\"";
  EXPECT_EQ(problem_of(file_of(json + "}}", 0)), "accepted");
  EXPECT_EQ(problem_of(file_of(json + R"(,"x":""}})", 0)), "more than 65536 metadata entries");
}

TEST(Safetensors, MoreTensorsThanTheLimitAreRefused) {
  std::string json = "{";
  for (std::size_t i = 0; i < kTensorsMax; ++i) {
    json += '"' + std::to_string(i) + R"(":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)";
  }
  EXPECT_EQ(problem_of(file_of(json + R"("x":{}})", 1)), "more than 1000000 tensors");
}

TEST(Safetensors, ALongNameIsCutInTheMessage) {
  const std::string problem = problem_of(file_of("{\"" + std::string(5000, 'n') + "\":1}", 0));
  EXPECT_LT(problem.size(), 250U);
  EXPECT_TRUE(problem.ends_with("…\" is not an object")) << problem;
}

TEST(SafetensorsLength, AShortFileIsSaidToBeThat) {
  EXPECT_EQ(problem_of({}), "the file is cut short: 0 bytes, and the header length alone takes 8");
  EXPECT_EQ(problem_of(as_bytes("\x10\x01\x01")),
            "the file is cut short: 3 bytes, and the header length alone takes 8");
  std::vector<std::byte> file = file_of("{}", 0);
  file[0] = std::byte{3};
  EXPECT_EQ(problem_of(file),
            "header of 3 bytes does not fit a file of 10 bytes: the file is cut short");
}

TEST(SafetensorsLength, AHeaderBeyondTheLimitIsRefusedHoweverLargeTheFile) {
  std::vector<std::byte> prefix(8);
  const std::uint64_t length = kHeaderBytesMax + 1;
  std::memcpy(prefix.data(), &length, sizeof length);
  const auto refused = safetensors_header_length(prefix, std::uint64_t{1} << 40U);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message(),
            "safetensors parse error: header of 104857601 bytes is larger than the limit of "
            "104857600");
  const std::uint64_t most = kHeaderBytesMax;
  std::memcpy(prefix.data(), &most, sizeof most);
  EXPECT_EQ(safetensors_header_length(prefix, most + 8).value(), most);
  EXPECT_FALSE(safetensors_header_length(prefix, most + 7).has_value());
}

TEST(SafetensorsLength, AHeaderThatDoesNotFitItsFileIsRefused) {
  const auto json = as_bytes("{}");
  EXPECT_TRUE(parse_safetensors_header(json, 10).has_value());
  EXPECT_FALSE(parse_safetensors_header(json, 9).has_value());
  EXPECT_FALSE(parse_safetensors_header(json, 0).has_value());
}

TEST(SafetensorsLength, AnHtmlPageIsSaidToBeThat) {
  for (const char* page : {"<!DOCTYPE html><html>", "<html lang=en>", "\n  <!doctype HTML>",
                           "\xEF\xBB\xBF<HTML>", "<?xml version=\"1.0\"?>", "<html>"}) {
    EXPECT_EQ(problem_of(as_bytes(page)), "the file is an HTML page") << page;
  }
}

TEST(SafetensorsLength, ALengthThatBeginsWithAnAngleBracketIsNotAPage) {
  // 0x3C bytes of header: the first byte of the file is '<'.
  const std::string json = "{}" + std::string(0x3C - 2, ' ');
  EXPECT_EQ(problem_of(file_of(json, 0)), "accepted");
}

TEST(SafetensorsLength, ALfsPointerIsSaidToBeThat) {
  const std::string pointer =
      "version https://git-lfs.example/spec/v1\noid sha256:0123\nsize 1234567\n";
  EXPECT_EQ(problem_of(as_bytes(pointer)), "the file is a git LFS pointer, not the data it names");
  // Eight bytes are enough to know it.
  const auto prefix = as_bytes(pointer.substr(0, 8));
  const auto refused = safetensors_header_length(prefix, 130);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().detail.find("LFS pointer"), std::string::npos);
}

}  // namespace
}  // namespace tenzro::tensor
