#include "tenzro/wire/expert_blob.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"

#include "blob_builder.hpp"
#include "support/reference_ffn.hpp"

namespace tenzro::wire {
namespace {

using compute::Activation;
using tensor::DType;
using tensor::WeightType;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr std::uint16_t kBadF16[] = {0x7C00, 0xFC00, 0x7E00, 0x7C01};
constexpr std::uint16_t kBadBf16[] = {0x7F80, 0xFF80, 0x7FC0, 0x7F81};

/// d_model 2, d_ff 3.
BlobBuilder dense_expert() {
  BlobBuilder builder;
  builder.f32("gate_proj.weight", {3, 2}, {1, 2, 3, 4, 5, 6});
  builder.f32("up_proj.weight", {3, 2}, {6, 5, 4, 3, 2, 1});
  builder.f32("down_proj.weight", {2, 3}, {1, 0, 1, 0, 1, 0});
  return builder;
}

/// d_model = d_ff = 256, every projection of `type`.
BlobBuilder quantized_expert(WeightType type) {
  BlobBuilder builder;
  for (const char* name : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
    builder.quantized(name, type, 256, 256, pattern(256 * 256));
  }
  return builder;
}

class BytesSource final : public compute::WeightSource {
 public:
  explicit BytesSource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] std::uint64_t size_bytes() const override { return bytes_.size(); }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (offset > bytes_.size() || to.size() > bytes_.size() - offset)
      return fail(ErrorCode::io, "blob", "ends early");
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    return {};
  }

 private:
  std::vector<std::byte> bytes_;
};

/// A blob that is read by slices is taken and refused as one in memory is, in the same words.
void expect_same_by_slices(const std::vector<std::byte>& blob, const Result<ExpertBlob>& expected) {
  const auto opened =
      open_expert_blob(std::make_shared<BytesSource>(blob), Values::unknown, 1U << 30U);
  ASSERT_EQ(opened.has_value(), expected.has_value());
  if (!opened) {
    EXPECT_EQ(opened.error().message(), expected.error().message());
    return;
  }
  const auto same = [&](const compute::MatrixView& matrix, std::uint64_t begin,
                        const compute::MatrixView& wanted) {
    EXPECT_EQ(matrix.type, wanted.type);
    EXPECT_EQ(matrix.rows, wanted.rows);
    EXPECT_EQ(matrix.cols, wanted.cols);
    EXPECT_TRUE(matrix.bytes.empty());
    EXPECT_EQ(blob.data() + begin, wanted.bytes.data());
  };
  const compute::WeightStream& stream = *opened->view.stream;
  ASSERT_EQ(opened->view.gate.has_value(), expected->view.gate.has_value());
  if (opened->view.gate) same(*opened->view.gate, stream.gate_begin, *expected->view.gate);
  same(opened->view.up, stream.up_begin, expected->view.up);
  same(opened->view.down, stream.down_begin, expected->view.down);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(opened->biases[i], expected->biases[i]);
}

/// Views every row of every matrix, at most `rows_max` at a time.
Status view_all(const compute::ExpertView& view, std::uint32_t rows_max) {
  std::vector<std::byte> scratch;
  const auto view_matrix = [&](const compute::MatrixView& matrix, std::uint64_t begin) -> Status {
    const std::size_t row_bytes = tensor::row_bytes(matrix.type, matrix.cols);
    for (std::uint32_t row = 0; row < matrix.rows; row += std::min(rows_max, matrix.rows - row)) {
      const std::size_t size = row_bytes * std::min(rows_max, matrix.rows - row);
      const auto bytes = view.stream->source->view(begin + row * row_bytes, size, scratch);
      if (!bytes) return fail(bytes.error());
    }
    return {};
  };
  Status status;
  if (view.gate) status = view_matrix(*view.gate, view.stream->gate_begin);
  if (status) status = view_matrix(view.up, view.stream->up_begin);
  if (status) status = view_matrix(view.down, view.stream->down_begin);
  return status;
}

/// And so is one whose values are checked as they are viewed, in however many rows at a time.
void expect_same_as_viewed(const std::vector<std::byte>& blob, const Result<ExpertBlob>& expected) {
  const std::string wanted = expected ? "" : expected.error().message();
  for (const std::uint32_t rows_max : {1U, 7U, 1U << 20U}) {
    const auto opened =
        open_expert_blob(std::make_shared<BytesSource>(blob), Values::as_viewed, 1U << 30U);
    const Status status = opened ? view_all(opened->view, rows_max) : Status(fail(opened.error()));
    EXPECT_EQ(status ? "" : status.error().message(), wanted) << rows_max << " rows at a time";
  }
}

std::string refusal(const std::vector<std::byte>& blob) {
  const Result<ExpertBlob> expert = parse_expert_blob(blob);
  expect_same_by_slices(blob, expert);
  expect_same_as_viewed(blob, expert);
  if (expert) return "(accepted)";
  EXPECT_EQ(expert.error().code, ErrorCode::runtime);
  return expert.error().message();
}

std::string refusal(const BlobBuilder& builder) {
  return refusal(builder.build());
}

TEST(ExpertBlob, HandValueOfASmallSwiGlu) {
  BlobBuilder builder;
  builder.f32("gate_proj.weight", {2, 2}, {1, 0, 0, 1});
  builder.f32("up_proj.weight", {2, 2}, {2, 0, 0, 2});
  builder.f32("down_proj.weight", {2, 2}, {1, 0, 0, 1});
  const std::vector<std::byte> blob = builder.build();
  const Result<ExpertBlob> expert = parse_expert_blob(blob);
  ASSERT_TRUE(expert.has_value()) << expert.error().message();
  expect_same_by_slices(blob, expert);
  const std::vector<float> row{1, -1};
  const std::vector<float> out =
      tenzro::testing::reference_ffn(expert->view, row, tenzro::testing::ActivationRounding::none);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_NEAR(out[0], 1.4621172F, 1e-5);
  EXPECT_NEAR(out[1], 0.5378828F, 1e-5);
}

TEST(ExpertBlob, DimensionsComeFromTheProjectionsAndBytesAreViews) {
  const std::vector<std::byte> blob = dense_expert().build();
  const Result<ExpertBlob> expert = parse_expert_blob(blob);
  ASSERT_TRUE(expert.has_value()) << expert.error().message();
  expect_same_by_slices(blob, expert);
  EXPECT_EQ(expert->view.d_model(), 2U);
  EXPECT_EQ(expert->view.d_ff(), 3U);
  EXPECT_EQ(expert->view.spec.activation, Activation::silu);
  EXPECT_EQ(load_f32_le(expert->view.up.row(1).data()), 4.0F);
  EXPECT_GE(expert->view.up.bytes.data(), blob.data());
  EXPECT_LE(expert->view.up.bytes.data(), blob.data() + blob.size());
}

TEST(ExpertBlob, ExtraTensorsAndMetadataAreIgnored) {
  BlobBuilder builder = dense_expert();
  builder.values<std::int64_t>("extra", DType::i64, {1}, {7}).metadata("who", "knows");
  EXPECT_EQ(refusal(builder), "(accepted)");
}

TEST(ExpertBlob, TensorsNeedNotBeAligned) {
  // One more space of header padding shifts every tensor to an odd offset.
  std::vector<std::byte> blob = dense_expert().build();
  const std::uint64_t length = load_u64_le(blob.data()) + 1;
  std::memcpy(blob.data(), &length, sizeof length);
  blob.insert(blob.begin() + static_cast<std::ptrdiff_t>(8 + length - 1), std::byte{' '});
  const Result<ExpertBlob> expert = parse_expert_blob(blob);
  ASSERT_TRUE(expert.has_value()) << expert.error().message();
  expect_same_by_slices(blob, expert);
  EXPECT_EQ(load_f32_le(expert->view.up.row(2).data() + 4), 1.0F);
}

TEST(ExpertBlob, DenseTypesMayDifferByProjection) {
  BlobBuilder builder = dense_expert();
  builder.values<std::uint16_t>("gate_proj.weight", DType::f16, {3, 2},
                                {0x3C00, 0, 0, 0, 0, 0x7BFF});
  builder.values<std::uint16_t>("down_proj.weight", DType::bf16, {2, 3},
                                {0x3F80, 0, 0, 0, 0, 0x7F7F});
  const std::vector<std::byte> blob = builder.build();
  const Result<ExpertBlob> expert = parse_expert_blob(blob);
  ASSERT_TRUE(expert.has_value()) << expert.error().message();
  expect_same_by_slices(blob, expert);
  EXPECT_EQ(expert->view.gate->type, WeightType::f16);
  EXPECT_EQ(expert->view.up.type, WeightType::f32);
  EXPECT_EQ(expert->view.down.type, WeightType::bf16);
  EXPECT_EQ(coarsest_quant(expert->view), std::nullopt);
}

TEST(ExpertBlob, CoarsestQuantisationNamesTheExpert) {
  BlobBuilder builder = quantized_expert(WeightType::q8_0);
  const auto coarsest = [&] {
    const std::vector<std::byte> blob = builder.build();
    return coarsest_quant(parse_expert_blob(blob).value().view);
  };
  EXPECT_EQ(coarsest(), WeightType::q8_0);
  builder.quantized("down_proj.weight", WeightType::q6_k, 256, 256, pattern(256 * 256));
  EXPECT_EQ(coarsest(), WeightType::q6_k);
  builder.quantized("up_proj.weight", WeightType::q4_k, 256, 256, pattern(256 * 256));
  EXPECT_EQ(coarsest(), WeightType::q4_k);
}

TEST(ExpertBlob, PresetNamesReadAsQ4K) {
  for (const char* alias : {"q4_k_m", "q4_k_s"}) {
    BlobBuilder builder = quantized_expert(WeightType::q4_k);
    builder.metadata("up_proj.weight.quant", alias).metadata("up_proj.weight.shape", " 256 , 256 ");
    const std::vector<std::byte> blob = builder.build();
    const Result<ExpertBlob> expert = parse_expert_blob(blob);
    ASSERT_TRUE(expert.has_value()) << expert.error().message();
    EXPECT_EQ(expert->view.up.type, WeightType::q4_k);
  }
}

TEST(ExpertBlob, NotASafetensorsFileIsSaidToBeThat) {
  EXPECT_THAT(refusal(std::vector<std::byte>(3)),
              ::testing::StartsWith("safetensors parse error: "));
}

TEST(ExpertBlobShape, MissingProjectionIsNamed) {
  for (const std::string name : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
    EXPECT_EQ(refusal(dense_expert().drop(name)), "tensor '" + name + "' missing from blob");
  }
}

TEST(ExpertBlobShape, ProjectionsThatDoNotFitAreRefusedWithBothShapes) {
  EXPECT_EQ(refusal(dense_expert().f32("down_proj.weight", {3, 2}, std::vector<float>(6))),
            "tensor 'down_proj.weight' has shape [3, 2], expected [2, 3]");
  EXPECT_EQ(refusal(dense_expert().f32("up_proj.weight", {2, 2}, std::vector<float>(4))),
            "tensor 'up_proj.weight' has shape [2, 2], expected [3, 2]");
  EXPECT_EQ(refusal(dense_expert().f32("gate_proj.weight", {3, 3}, std::vector<float>(9))),
            "tensor 'up_proj.weight' has shape [3, 2], expected [3, 3]");
}

TEST(ExpertBlobShape, OtherThanTwoDimensionsOfAtLeastOneAreRefused) {
  const auto with = [](BlobBuilder::Shape shape, std::size_t size) {
    return refusal(
        dense_expert().f32("gate_proj.weight", std::move(shape), std::vector<float>(size)));
  };
  EXPECT_EQ(with({6}, 6), "tensor 'gate_proj.weight' has shape [6], expected [d_ff, d_model]");
  EXPECT_EQ(with({1, 3, 2}, 6),
            "tensor 'gate_proj.weight' has shape [1, 3, 2], expected [d_ff, d_model]");
  EXPECT_EQ(with({}, 1), "tensor 'gate_proj.weight' has shape [], expected [d_ff, d_model]");
  EXPECT_EQ(with({0, 2}, 0),
            "tensor 'gate_proj.weight' has shape [0, 2], expected [d_ff, d_model]");
  EXPECT_EQ(with({3, 0}, 0),
            "tensor 'gate_proj.weight' has shape [3, 0], expected [d_ff, d_model]");
  EXPECT_EQ(with({0, 1ULL << 33U}, 0),
            "tensor 'gate_proj.weight' has shape [0, 8589934592], expected [d_ff, d_model]");
}

TEST(ExpertBlobShape, OtherDtypesAreRefusedByName) {
  EXPECT_EQ(refusal(dense_expert().values<double>("up_proj.weight", DType::f64, {3, 2},
                                                  std::vector<double>(6))),
            "tensor 'up_proj.weight' has unsupported dtype F64 (want F32, F16, or BF16)");
  EXPECT_EQ(refusal(dense_expert().values<std::uint8_t>("up_proj.weight", DType::u8, {204},
                                                        std::vector<std::uint8_t>(204))),
            "tensor 'up_proj.weight' has unsupported dtype U8 (want F32, F16, or BF16)");
}

struct QuantCase {
  const char* key;
  const char* value;
  const char* problem;
};

class ExpertBlobQuant : public ::testing::TestWithParam<QuantCase> {};

TEST_P(ExpertBlobQuant, MalformedMetadataIsRefused) {
  BlobBuilder builder = quantized_expert(WeightType::q8_0);
  builder.metadata(std::string("up_proj.weight.") + GetParam().key, GetParam().value);
  EXPECT_EQ(refusal(builder),
            std::string("quantized tensor 'up_proj.weight' is malformed: ") + GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    Type, ExpertBlobQuant,
    ::testing::Values(QuantCase{"quant", "q5_k", "unknown quantisation 'q5_k'"},
                      QuantCase{"quant", "", "unknown quantisation ''"},
                      QuantCase{"quant", "Q8_0", "unknown quantisation 'Q8_0'"},
                      QuantCase{"quant", "f32", "unknown quantisation 'f32'"}));
INSTANTIATE_TEST_SUITE_P(
    ShapeText, ExpertBlobQuant,
    ::testing::Values(QuantCase{"shape", "", "shape '' is not \"rows,cols\""},
                      QuantCase{"shape", "256", "shape '256' is not \"rows,cols\""},
                      QuantCase{"shape", "256,", "shape '256,' is not \"rows,cols\""},
                      QuantCase{"shape", ",256", "shape ',256' is not \"rows,cols\""},
                      QuantCase{"shape", "256,256,1", "shape '256,256,1' is not \"rows,cols\""},
                      QuantCase{"shape", "-1,256", "shape '-1,256' is not \"rows,cols\""},
                      QuantCase{"shape", "+1,256", "shape '+1,256' is not \"rows,cols\""},
                      QuantCase{"shape", "2 56,256", "shape '2 56,256' is not \"rows,cols\""},
                      QuantCase{"shape", "0x100,256", "shape '0x100,256' is not \"rows,cols\""},
                      QuantCase{"shape", "0,256", "shape '0,256' is not \"rows,cols\""},
                      QuantCase{"shape", "256,0", "shape '256,0' is not \"rows,cols\""},
                      QuantCase{"shape", "4294967296,256",
                                "shape '4294967296,256' is not \"rows,cols\""}));
INSTANTIATE_TEST_SUITE_P(
    Bytes, ExpertBlobQuant,
    ::testing::Values(
        QuantCase{"shape", "256,255", "255 columns do not divide by the block of 32"},
        QuantCase{"shape", "255,256", "shape '255,256' needs 69360 bytes, have 69632"},
        QuantCase{"shape", "257,256", "shape '257,256' needs 69904 bytes, have 69632"},
        QuantCase{"shape", "4294967295,4294967264",
                  "shape '4294967295,4294967264' needs more than 2^64 bytes, have "
                  "69632"},
        QuantCase{"quant", "q4_k", "shape '256,256' needs 36864 bytes, have 69632"}));

TEST(ExpertBlobQuant, SameNumberOfWeightsInAnotherShapeIsRefused) {
  BlobBuilder builder = quantized_expert(WeightType::q8_0);
  builder.metadata("up_proj.weight.shape", "512,128");
  EXPECT_EQ(refusal(builder), "tensor 'up_proj.weight' has shape [512, 128], expected [256, 256]");
}

TEST(ExpertBlobQuant, MissingShapeAndWrongStorageAreRefused) {
  EXPECT_EQ(refusal(quantized_expert(WeightType::q8_0).without_metadata("up_proj.weight.shape")),
            "quantized tensor 'up_proj.weight' is malformed: metadata holds no shape");
  BlobBuilder two_dimensional = quantized_expert(WeightType::q8_0);
  two_dimensional.raw("up_proj.weight", DType::u8, {256, 272},
                      std::vector<std::byte>(std::size_t{256} * 272));
  EXPECT_EQ(refusal(two_dimensional),
            "quantized tensor 'up_proj.weight' is malformed: want one dimension of U8, have U8 "
            "[256, 272]");
  EXPECT_EQ(refusal(dense_expert().metadata("up_proj.weight.quant", "q8_0")),
            "quantized tensor 'up_proj.weight' is malformed: want one dimension of U8, have F32 "
            "[3, 2]");
}

TEST(ExpertBlobValues, NonFiniteDenseWeightIsRefusedNamingTensorAndRow) {
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(refusal(dense_expert().f32("up_proj.weight", {3, 2}, {0, 0, 0, bad, 0, 0})),
              "tensor 'up_proj.weight' row 1 holds a non-finite value");
  }
  for (const std::uint16_t bad : kBadF16) {
    EXPECT_EQ(refusal(dense_expert().values<std::uint16_t>("up_proj.weight", DType::f16, {3, 2},
                                                           {0, 0, 0, 0, 0, bad})),
              "tensor 'up_proj.weight' row 2 holds a non-finite value");
  }
  for (const std::uint16_t bad : kBadBf16) {
    EXPECT_EQ(refusal(dense_expert().values<std::uint16_t>("gate_proj.weight", DType::bf16, {3, 2},
                                                           {bad, 0, 0, 0, 0, 0})),
              "tensor 'gate_proj.weight' row 0 holds a non-finite value");
  }
}

TEST(ExpertBlobValues, AsViewedNothingIsRefusedBeforeItsRowIsViewed) {
  BlobBuilder builder;
  builder.f32("gate_proj.weight", {3, 2}, {1, 2, 3, 4, 5, 6});
  builder.f32("up_proj.weight", {3, 2}, {6, 5, 4, kNan, 2, 1});
  builder.f32("down_proj.weight", {2, 3}, {1, 0, 1, 0, 1, 0});
  const auto opened = open_expert_blob(std::make_shared<BytesSource>(builder.build()),
                                       Values::as_viewed, 1U << 30U);
  ASSERT_TRUE(opened) << opened.error().message();
  const compute::WeightStream& stream = *opened->view.stream;
  constexpr std::size_t kRowBytes = 2 * sizeof(float);
  std::vector<std::byte> scratch;
  const auto view = [&](std::uint64_t begin, std::size_t size) -> std::string {
    const auto bytes = stream.source->view(begin, size, scratch);
    return bytes ? "" : bytes.error().message();
  };
  EXPECT_EQ(view(stream.up_begin, kRowBytes), "");
  EXPECT_THAT(view(stream.up_begin + kRowBytes, kRowBytes), HasSubstr("up_proj.weight' row 1"));
  EXPECT_EQ(view(stream.up_begin + 2 * kRowBytes, kRowBytes), "");
  std::vector<std::byte> row(kRowBytes);
  EXPECT_FALSE(stream.source->read(stream.up_begin + kRowBytes, row));
}

TEST(ExpertBlobValues, LargestFiniteValuesAreAccepted) {
  EXPECT_EQ(refusal(dense_expert()
                        .f32("up_proj.weight", {3, 2},
                             std::vector<float>(6, -std::numeric_limits<float>::max()))
                        .values<std::uint16_t>("gate_proj.weight", DType::f16, {3, 2},
                                               std::vector<std::uint16_t>(6, 0xFBFF))
                        .values<std::uint16_t>("down_proj.weight", DType::bf16, {2, 3},
                                               std::vector<std::uint16_t>(6, 0xFF7F))),
            "(accepted)");
}

void set_u16(std::vector<std::byte>& bytes, std::size_t at, std::uint16_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

struct ScaleCase {
  WeightType type;
  std::size_t offset;
};

class ExpertBlobScales : public ::testing::TestWithParam<ScaleCase> {};

TEST_P(ExpertBlobScales, NonFiniteScaleIsRefusedNamingTensorAndRow) {
  const auto [type, offset] = GetParam();
  BlobBuilder builder = quantized_expert(type);
  std::vector<std::byte>& bytes = builder.bytes_of("down_proj.weight");
  // The last block of row 200.
  const std::size_t block = 201 * tensor::row_bytes(type, 256) - tensor::block_bytes(type);
  for (const std::uint16_t bad : kBadF16) {
    set_u16(bytes, block + offset, bad);
    EXPECT_EQ(refusal(builder), "tensor 'down_proj.weight' row 200 holds a non-finite block scale");
  }
}

INSTANTIATE_TEST_SUITE_P(EveryScale, ExpertBlobScales,
                         ::testing::Values(ScaleCase{WeightType::q8_0, 0},
                                           ScaleCase{WeightType::q4_k, 0},
                                           ScaleCase{WeightType::q4_k, 2},
                                           ScaleCase{WeightType::q6_k, 208}));

TEST(ExpertBlobValues, Q8Value128BelowZeroIsRefusedWhereverItStands) {
  for (std::size_t i = 0; i < 32; ++i) {
    BlobBuilder builder = quantized_expert(WeightType::q8_0);
    builder.bytes_of("gate_proj.weight")[34 * (8 * 17 + 3) + 2 + i] = std::byte{0x80};
    EXPECT_EQ(refusal(builder), "tensor 'gate_proj.weight' row 17 holds the Q8_0 value -128");
  }
}

// The fast scan and the reference verdict must agree on any bytes.
TEST(ExpertBlobValues, VerdictOnRandomBytesIsTheReferences) {
  Prng prng(3);
  const auto random_word = [&] { return static_cast<std::uint16_t>(prng.next()); };
  std::size_t refused = 0;
  for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16,
                                WeightType::q8_0, WeightType::q4_k, WeightType::q6_k}) {
    constexpr std::uint32_t kCols = 256;
    const std::size_t stride = tensor::row_bytes(type, kCols);
    for (int round = 0; round < 300; ++round) {
      std::vector<std::byte> row = BlobBuilder::encoded(type, kCols, pattern(kCols));
      set_u16(row, prng.below(stride / 2) * 2, random_word());
      set_u16(row, prng.below(stride / 2) * 2, round % 2 == 0 ? 0x7FC0 : random_word());
      BlobBuilder builder;
      const compute::MatrixView matrix{.type = type, .rows = 1, .cols = kCols, .bytes = row};
      const std::vector<std::byte> down = BlobBuilder::encoded(WeightType::f32, 1, pattern(kCols));
      const compute::ExpertView view{
          .spec = {.activation = Activation::relu2},
          .gate = std::nullopt,
          .up = matrix,
          .down = {.type = WeightType::f32, .rows = kCols, .cols = 1, .bytes = down},
          .gate_bias = {},
          .up_bias = {},
          .down_bias = {}};
      const auto defect = tensor::find_defect(type, row);
      const std::string verdict = refusal(make_expert_blob(view));
      refused += defect ? 1U : 0U;
      ASSERT_EQ(verdict != "(accepted)", defect.has_value()) << verdict;
      if (defect == tensor::RowDefect::q8_minus_128) {
        ASSERT_THAT(verdict, HasSubstr("-128"));
      }
    }
  }
  EXPECT_GT(refused, 100U);
}

TEST(ExpertBlobBias, IsWidenedAndOutlivesAMove) {
  BlobBuilder builder = dense_expert();
  builder.f32("gate_proj.bias", {3}, {1, 2, 3});
  builder.values<std::uint16_t>("down_proj.bias", DType::bf16, {2}, {0x3F80, 0xC000});
  const std::vector<std::byte> blob = builder.build();
  Result<ExpertBlob> parsed = parse_expert_blob(blob);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  const ExpertBlob expert = std::move(*parsed);
  EXPECT_THAT(expert.view.gate_bias, ::testing::ElementsAre(1, 2, 3));
  EXPECT_TRUE(expert.view.up_bias.empty());
  EXPECT_THAT(expert.view.down_bias, ::testing::ElementsAre(1, -2));
}

TEST(ExpertBlobBias, WrongLengthTypeOrValueIsRefused) {
  EXPECT_EQ(refusal(dense_expert().f32("up_proj.bias", {2}, {1, 2})),
            "tensor 'up_proj.bias' has shape [2], expected [3]");
  EXPECT_EQ(refusal(dense_expert().f32("down_proj.bias", {1, 2}, {1, 2})),
            "tensor 'down_proj.bias' has shape [1, 2], expected [2]");
  EXPECT_EQ(refusal(dense_expert().values<std::int8_t>("up_proj.bias", DType::i8, {3}, {1, 2, 3})),
            "tensor 'up_proj.bias' has unsupported dtype I8 (want F32, F16, or BF16)");
  EXPECT_EQ(refusal(dense_expert().f32("gate_proj.bias", {3}, {1, 2, kInfinity})),
            "tensor 'gate_proj.bias' row 2 holds a non-finite value");
}

TEST(FfnSpec, DefaultsAreThoseOfTheActivation) {
  const auto spec_of = [](const char* text) {
    const std::vector<std::byte> blob = dense_expert().metadata("tenzro.ffn", text).build();
    return parse_expert_blob(blob).value().view.spec;
  };
  EXPECT_EQ(spec_of("{}").activation, Activation::silu);
  EXPECT_EQ(spec_of(R"({"activation":"swigluoai"})").alpha, 1.702F);
  EXPECT_EQ(spec_of(R"({"activation":"swigluoai"})").limit, 7.0F);
  EXPECT_EQ(spec_of(R"({"activation":"situ"})").beta, 4.0F);
  EXPECT_EQ(spec_of(R"({"activation":"situ"})").linear_beta, 25.0F);
  EXPECT_EQ(spec_of(R"({"activation":"silu_clamped","limit":10})").limit, 10.0F);
  EXPECT_EQ(spec_of(R"({"activation":"gelu_tanh"})").activation, Activation::gelu_tanh);
}

TEST(FfnSpec, Relu2HasNoGateAndOneIsRefusedByName) {
  BlobBuilder builder = dense_expert();
  builder.metadata("tenzro.ffn", R"({"activation":"relu2"})");
  EXPECT_EQ(refusal(builder), "tensor 'gate_proj.weight' has no place in an expert of relu2");
  builder.drop("gate_proj.weight");
  const std::vector<std::byte> blob = builder.build();
  const Result<ExpertBlob> expert = parse_expert_blob(blob);
  ASSERT_TRUE(expert.has_value()) << expert.error().message();
  expect_same_by_slices(blob, expert);
  EXPECT_FALSE(expert->view.gate.has_value());
  EXPECT_EQ(expert->view.d_ff(), 3U);
  builder.f32("gate_proj.bias", {3}, {1, 2, 3});
  EXPECT_EQ(refusal(builder), "tensor 'gate_proj.bias' has no place in an expert of relu2");
}

struct SpecCase {
  const char* text;
  const char* problem;
};

class FfnSpecRefuses : public ::testing::TestWithParam<SpecCase> {};

TEST_P(FfnSpecRefuses, ByName) {
  EXPECT_EQ(refusal(dense_expert().metadata("tenzro.ffn", GetParam().text)),
            std::string("tenzro.ffn: ") + GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, FfnSpecRefuses,
    ::testing::Values(SpecCase{R"({"activatoin":"silu"})", "unknown key 'activatoin'"},
                      SpecCase{R"({"limit":1,"limit":1})", "duplicate key 'limit'"},
                      SpecCase{R"({"shared":{"count":1}})", "unknown key 'shared'"},
                      SpecCase{R"({"a.b":1})", "unknown key 'a.b'"},
                      SpecCase{"silu", "not JSON at byte 1"}, SpecCase{"[]", "not a JSON object"}));
INSTANTIATE_TEST_SUITE_P(
    Values, FfnSpecRefuses,
    ::testing::Values(
        SpecCase{R"({"activation":"swish"})",
                 "'activation' has unknown or out of range value 'swish'"},
        SpecCase{R"({"activation":1})", "'activation' must be a string"},
        SpecCase{R"({"limit":"7"})", "'limit' must be a number"},
        SpecCase{R"({"limit":null})", "'limit' must be a number"},
        SpecCase{R"({"limit":0})", "'limit' has unknown or out of range value '0'"},
        SpecCase{R"({"limit":-7})", "'limit' has unknown or out of range value '-7'"},
        SpecCase{R"({"alpha":1e300})", "'alpha' has unknown or out of range value '1e+300'"},
        SpecCase{R"({"beta":1e-300})", "'beta' has unknown or out of range value '1e-300'"},
        SpecCase{R"({"linear_beta":[1]})", "'linear_beta' must be a number"},
        SpecCase{R"({"activation":"silu_clamped"})",
                 "'limit' is missing, and silu_clamped needs it"}));

/// A view of some bytes, for making blobs.
struct Matrix {
  std::vector<std::byte> bytes;
  compute::MatrixView view;

  Matrix(WeightType type, std::uint32_t rows, std::uint32_t cols)
      : bytes(BlobBuilder::encoded(type, cols, pattern(std::size_t{rows} * cols))),
        view{.type = type, .rows = rows, .cols = cols, .bytes = bytes} {}
};

void expect_same(const compute::MatrixView& a, const compute::MatrixView& b) {
  EXPECT_EQ(a.type, b.type);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.cols, b.cols);
  EXPECT_TRUE(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end()));
}

class ExpertBlobRoundTrip : public ::testing::TestWithParam<std::tuple<WeightType, Activation>> {};

TEST_P(ExpertBlobRoundTrip, WhatIsMadeIsRead) {
  const auto [type, activation] = GetParam();
  const Matrix gate(type, 256, 512);
  const Matrix up(WeightType::bf16, 256, 512);
  const Matrix down(type, 512, 256);
  const std::vector<float> up_bias = pattern(256);
  compute::ExpertView view;
  view.spec = {.activation = activation, .limit = 7, .alpha = 1.702F, .beta = 4, .linear_beta = 25};
  if (activation != Activation::relu2) view.gate = gate.view;
  view.up = up.view;
  view.down = down.view;
  view.up_bias = up_bias;
  const std::vector<std::byte> blob = make_expert_blob(view);
  const Result<ExpertBlob> read = parse_expert_blob(blob);
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->view.spec.activation, activation);
  EXPECT_EQ(read->view.spec.alpha, view.spec.alpha);
  ASSERT_EQ(read->view.gate.has_value(), view.gate.has_value());
  if (view.gate) expect_same(*read->view.gate, *view.gate);
  expect_same(read->view.up, view.up);
  expect_same(read->view.down, view.down);
  EXPECT_THAT(read->view.up_bias, ::testing::ElementsAreArray(up_bias));
  EXPECT_EQ(make_expert_blob(read->view), blob);
}

INSTANTIATE_TEST_SUITE_P(
    EveryTypeAndActivation, ExpertBlobRoundTrip,
    ::testing::Combine(::testing::Values(WeightType::f32, WeightType::f16, WeightType::bf16,
                                         WeightType::q8_0, WeightType::q4_k, WeightType::q6_k),
                       ::testing::Values(Activation::silu, Activation::silu_clamped,
                                         Activation::swigluoai, Activation::gelu_tanh,
                                         Activation::relu2, Activation::situ)));

TEST(ExpertBlob, HeaderOfAMadeBlobIsWhatOlderHoldersRead) {
  const Matrix gate(WeightType::q8_0, 1, 32);
  const Matrix down(WeightType::f32, 32, 1);
  compute::ExpertView view;
  view.gate = gate.view;
  view.up = gate.view;
  view.down = down.view;
  const std::vector<std::byte> blob = make_expert_blob(view);
  const std::string header(static_cast<const char*>(static_cast<const void*>(blob.data() + 8)),
                           load_u64_le(blob.data()));
  EXPECT_THAT(
      header,
      ::testing::StartsWith(
          R"({"__metadata__":{"gate_proj.weight.quant":"q8_0","gate_proj.weight.shape":"1,32",)"
          R"("up_proj.weight.quant":"q8_0","up_proj.weight.shape":"1,32"},)"
          R"("gate_proj.weight":{"dtype":"U8","shape":[34],"data_offsets":[0,34]},)"
          R"("up_proj.weight":{"dtype":"U8","shape":[34],"data_offsets":[34,68]},)"
          R"("down_proj.weight":{"dtype":"F32","shape":[32,1],"data_offsets":[68,196]}})"));
}

TEST(FfnSpec, OnlyWhatTheActivationUsesIsWritten) {
  const Matrix up(WeightType::f32, 1, 1);
  const auto text_of = [&](compute::FfnSpec spec) {
    compute::ExpertView view;
    view.spec = spec;
    if (spec.activation != Activation::relu2) view.gate = up.view;
    view.up = up.view;
    view.down = up.view;
    const std::vector<std::byte> blob = make_expert_blob(view);
    const auto header = tensor::parse_safetensors(blob).value();
    const auto found = header.metadata.find("tenzro.ffn");
    return found == header.metadata.end() ? std::string() : found->second;
  };
  EXPECT_EQ(text_of({.activation = Activation::silu, .limit = 3}), "");
  EXPECT_EQ(text_of({.activation = Activation::relu2}), R"({"activation":"relu2"})");
  EXPECT_EQ(text_of({.activation = Activation::silu_clamped, .limit = 10}),
            R"({"activation":"silu_clamped","limit":10})");
  EXPECT_EQ(text_of({.activation = Activation::swigluoai}),
            R"({"activation":"swigluoai","limit":7,"alpha":1.702})");
  EXPECT_EQ(text_of({.activation = Activation::situ}),
            R"({"activation":"situ","beta":4,"linear_beta":25})");
}

TEST(FfnSpec, ExtremeParametersAreReadBackAsWritten) {
  const Matrix up(WeightType::f32, 1, 1);
  for (const float limit :
       {std::numeric_limits<float>::max(), std::numeric_limits<float>::min(), 0.1F, 16777217.0F}) {
    compute::ExpertView view;
    view.spec = {.activation = Activation::silu_clamped, .limit = limit};
    view.gate = up.view;
    view.up = up.view;
    view.down = up.view;
    const std::vector<std::byte> blob = make_expert_blob(view);
    const Result<ExpertBlob> read = parse_expert_blob(blob);
    ASSERT_TRUE(read.has_value()) << read.error().message();
    EXPECT_EQ(read->view.spec.limit, limit);
  }
}

TEST(ExpertBlob, EveryCutAndEveryChangedHeaderByteIsRefusedOrReadWithoutHarm) {
  const std::vector<std::byte> blob = dense_expert().build();
  for (std::size_t size = 0; size < blob.size(); ++size) {
    EXPECT_NE(refusal({blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(size)}),
              "(accepted)");
  }
  Prng prng(11);
  for (std::size_t at = 0; at < blob.size(); ++at) {
    std::vector<std::byte> changed = blob;
    changed[at] = static_cast<std::byte>(prng.next());
    const Result<ExpertBlob> expert = parse_expert_blob(changed);
    expect_same_by_slices(changed, expert);
    if (expert) {
      EXPECT_EQ(expert->view.d_ff() * expert->view.d_model(), 6U);
    }
  }
}

/// A header and then zeros, of which nobody has the memory.
class HugeSource final : public compute::WeightSource {
 public:
  HugeSource(const std::string& header, std::uint64_t data_bytes) : start_(8) {
    for (std::size_t i = 0; i < 8; ++i)
      start_[i] = static_cast<std::byte>(header.size() >> (8 * i));
    const auto bytes = std::as_bytes(std::span(header));
    start_.insert(start_.end(), bytes.begin(), bytes.end());
    size_ = start_.size() + data_bytes;
  }

  [[nodiscard]] std::uint64_t size_bytes() const override { return size_; }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (offset >= start_.size()) longest = std::max<std::uint64_t>(longest, to.size());
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = offset + i < start_.size() ? start_[offset + i] : std::byte{0};
    return {};
  }

  mutable std::uint64_t longest = 0;  ///< that was asked for at once behind the header

 private:
  std::vector<std::byte> start_;
  std::uint64_t size_ = 0;
};

std::string tensor_json(const std::string& name, const std::string& shape, std::uint64_t begin,
                        std::uint64_t end) {
  return '"' + name + R"(":{"dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[)" +
         std::to_string(begin) + ',' + std::to_string(end) + "]}";
}

TEST(ExpertBlob, WhatIsWiderThanTheMemoryForSlicesIsRefusedBeforeItIsRead) {
  const std::uint64_t wide = 1ULL << 28U;  // 1 GiB as f32
  const std::uint64_t bytes = 4 * wide;
  const std::string w = std::to_string(wide);
  const std::string row = "{" + tensor_json("gate_proj.weight", "1," + w, 0, bytes) + "," +
                          tensor_json("up_proj.weight", "1," + w, bytes, 2 * bytes) + "," +
                          tensor_json("down_proj.weight", w + ",1", 2 * bytes, 3 * bytes) + "}";
  const std::string bias = "{" + tensor_json("gate_proj.weight", "1," + w, 0, bytes) + "," +
                           tensor_json("up_proj.weight", "1," + w, bytes, 2 * bytes) + "," +
                           tensor_json("down_proj.weight", w + ",1", 2 * bytes, 3 * bytes) + "," +
                           tensor_json("down_proj.bias", w, 3 * bytes, 4 * bytes) + "}";

  const struct {
    const std::string* header;
    std::uint64_t data_bytes;
    std::uint64_t biases;
  } cases[] = {{&row, 3 * bytes, 0}, {&bias, 4 * bytes, bytes}};

  for (const auto& one : cases) {
    for (const Values values : {Values::unknown, Values::known}) {
      const auto source = std::make_shared<HugeSource>(*one.header, one.data_bytes);
      const auto opened = open_expert_blob(source, values, 16U << 20U);
      ASSERT_FALSE(opened);
      EXPECT_EQ(opened.error().code, ErrorCode::no_space);
      EXPECT_EQ(opened.error().message(),
                "weights: an expert read by slices may have 16777216 bytes of memory: 1073741824 "
                "for what 'gate_proj.weight' has at least to be read at once and " +
                    std::to_string(one.biases) + " of biases are more");
      EXPECT_EQ(source->longest, 0U);
    }
  }
}

TEST(ExpertBlob, ReadingBySlicesTakesTheMemoryThatItMayHaveAndNoMore) {
  const std::string header = "{" + tensor_json("gate_proj.weight", "64,32", 0, 8192) + "," +
                             tensor_json("up_proj.weight", "64,32", 8192, 16384) + "," +
                             tensor_json("down_proj.weight", "32,64", 16384, 24576) + "," +
                             tensor_json("up_proj.bias", "64", 24576, 24832) + "}";
  // A bias of 256 bytes as it is kept, beside it a row of down or the bias as it is stored.
  for (const std::uint64_t memory : {512U, 1024U, 1U << 20U}) {
    const auto source = std::make_shared<HugeSource>(header, 24832);
    const auto opened = open_expert_blob(source, Values::unknown, memory);
    ASSERT_TRUE(opened) << opened.error().message();
    EXPECT_EQ(opened->view.stream->memory_bytes_max, memory);
    EXPECT_LE(source->longest, memory - 256);
  }
  const auto source = std::make_shared<HugeSource>(header, 24832);
  EXPECT_FALSE(open_expert_blob(source, Values::unknown, 511));
}

TEST(ExpertBlob, CheckedAsViewedIsViewedInWholeRowsOfOneMatrix) {
  const std::vector<std::byte> blob = quantized_expert(WeightType::q8_0).build();
  const auto opened =
      open_expert_blob(std::make_shared<BytesSource>(blob), Values::as_viewed, 1U << 30U);
  ASSERT_TRUE(opened) << opened.error().message();
  const compute::WeightStream& stream = *opened->view.stream;
  const std::size_t row = tensor::row_bytes(WeightType::q8_0, 256);
  std::vector<std::byte> scratch;
  for (const std::uint64_t begin : {stream.gate_begin, stream.up_begin, stream.down_begin}) {
    EXPECT_TRUE(stream.source->view(begin, 256 * row, scratch));
    EXPECT_TRUE(stream.source->view(begin + 255 * row, row, scratch));
    EXPECT_DEATH((void)stream.source->view(begin + 1, row, scratch), "from % row_bytes == 0");
    EXPECT_DEATH((void)stream.source->view(begin, row + 1, scratch), "size.. % row_bytes == 0");
    EXPECT_DEATH((void)stream.source->read(begin, std::span(scratch).first(1)),
                 "size.. % row_bytes == 0");
  }
  const std::uint64_t first = std::min({stream.gate_begin, stream.up_begin, stream.down_begin});
  EXPECT_DEATH((void)stream.source->view(first + 255 * row, 2 * row, scratch), "place.end");
}

}  // namespace
}  // namespace tenzro::wire
