// Packed checkpoint formats against the values that the publishers' own libraries decode.
#include "tenzro/tensor/checkpoint_format.hpp"

#include <cmath>
#include <limits>
#include <memory>

#include <gtest/gtest.h>

#include "tenzro/tensor/safetensors.hpp"

#include "unit/tensor/golden_file.hpp"

namespace tenzro::tensor {
namespace {

/// The golden file of formats, read by our own reader.
class Formats {
 public:
  Formats() : file_(test::read_data("formats/checkpoint_formats.safetensors")) {
    Result<SafetensorsHeader> header = parse_safetensors(file_);
    EXPECT_TRUE(header.has_value());
    if (header) header_ = *std::move(header);
  }

  [[nodiscard]] const TensorInfo& info(const std::string& name) const {
    const TensorInfo* info = header_.find(name);
    EXPECT_NE(info, nullptr) << name;
    static const TensorInfo none;
    return info != nullptr ? *info : none;
  }

  [[nodiscard]] std::span<const std::byte> bytes(const std::string& name) const {
    return std::span(file_).subspan(info(name).begin, info(name).bytes());
  }

  [[nodiscard]] std::vector<float> f32(const std::string& name) const {
    return test::values_of<float>(bytes(name));
  }

 private:
  std::vector<std::byte> file_;
  SafetensorsHeader header_;
};

struct Stored {
  const char* title;
  CheckpointFormat format;
  std::string values;
  std::string scales;
  std::string golden;
};

class CheckpointGolden : public testing::TestWithParam<Stored> {
 protected:
  [[nodiscard]] PackedMatrix matrix() const {
    const Stored& stored = GetParam();
    const std::vector<std::uint64_t>& shape = formats_.info(stored.golden).shape;
    return {
        .format = stored.format,
        .rows = shape.at(0),
        .cols = shape.at(1),
        .values = formats_.bytes(stored.values),
        .scales = formats_.bytes(stored.scales),
        .scale_dtype = formats_.info(stored.scales).dtype,
    };
  }

  Formats formats_;
};

TEST_P(CheckpointGolden, WholeMatrixEqualsTheGoldenBitForBit) {
  const PackedMatrix packed = matrix();
  std::vector<float> got(packed.rows * packed.cols);
  const Status status = decode_packed_rows(packed, 0, got);
  ASSERT_TRUE(status.has_value()) << status.error().message();
  EXPECT_EQ(test::bits_of(got), test::bits_of(formats_.f32(GetParam().golden)));
}

TEST_P(CheckpointGolden, AnyRangeOfRowsEqualsThatPartOfTheWhole) {
  const PackedMatrix packed = matrix();
  const std::vector<float> want = formats_.f32(GetParam().golden);
  for (const std::uint64_t count : {1U, 7U}) {
    for (std::uint64_t first = 0; first + count <= packed.rows; first += count) {
      std::vector<float> got(count * packed.cols);
      ASSERT_TRUE(decode_packed_rows(packed, first, got).has_value());
      ASSERT_EQ(test::bits_of(got),
                test::bits_of(std::span(want).subspan(first * packed.cols, got.size())))
          << "row " << first;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, CheckpointGolden,
    testing::Values(
        Stored{"Fp8WithF32Scale", CheckpointFormat::fp8_block128, "fp8_block128.weight",
               "fp8_block128.weight_scale_inv", "golden.fp8_block128.f32"},
        Stored{"Fp8WithE8M0Scale", CheckpointFormat::fp8_block128, "fp8_block128_ue8m0.weight",
               "fp8_block128_ue8m0.scale", "golden.fp8_block128_ue8m0.f32"},
        Stored{"Fp4", CheckpointFormat::fp4_group32, "fp4_e8m0_1x32.weight", "fp4_e8m0_1x32.scale",
               "golden.fp4_e8m0_1x32.f32"},
        Stored{"MxFp4Packed", CheckpointFormat::fp4_group32, "mxfp4_packed.weight_packed",
               "mxfp4_packed.weight_scale", "golden.mxfp4_packed.f32"},
        Stored{"Int4Packed", CheckpointFormat::int4_group32, "int4_packed.weight_packed",
               "int4_packed.weight_scale", "golden.int4_packed.f32"}),
    [](const auto& stored) { return stored.param.title; });

TEST(CheckpointFormat, GptOssSlabOfEachExpertEqualsTheTransposedGolden) {
  const Formats formats;
  const TensorInfo& blocks = formats.info("gptoss.gate_up_proj_blocks");
  const std::uint64_t experts = blocks.shape.at(0);
  const std::uint64_t rows = blocks.shape.at(1);
  const std::uint64_t cols = blocks.shape.at(2) * 32;
  const auto values = formats.bytes("gptoss.gate_up_proj_blocks");
  const auto scales = formats.bytes("gptoss.gate_up_proj_scales");
  const std::vector<float> want = formats.f32("golden.gptoss.gate_up_proj.f32");
  for (std::uint64_t expert = 0; expert < experts; ++expert) {
    const PackedMatrix packed{
        .format = CheckpointFormat::fp4_group32,
        .rows = rows,
        .cols = cols,
        .values = values.subspan(expert * rows * cols / 2, rows * cols / 2),
        .scales = scales.subspan(expert * rows * cols / 32, rows * cols / 32),
        .scale_dtype = formats.info("gptoss.gate_up_proj_scales").dtype,
    };
    std::vector<float> got(rows * cols);
    ASSERT_TRUE(decode_packed_rows(packed, 0, got).has_value());
    std::vector<float> transposed(got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      transposed[i % cols * rows + i / cols] = got[i];
    }
    EXPECT_EQ(test::bits_of(transposed),
              test::bits_of(std::span(want).subspan(expert * rows * cols, rows * cols)));
  }
}

TEST(CheckpointFormat, Int4ValuesEqualTheGoldenIntegersUnderAUnitScale) {
  const Formats formats;
  const auto want = test::values_of<std::int8_t>(formats.bytes("golden.int4_packed.int8"));
  const std::vector<float> ones(192, 1.0F);
  const PackedMatrix packed{.format = CheckpointFormat::int4_group32,
                            .rows = 48,
                            .cols = 128,
                            .values = formats.bytes("int4_packed.weight_packed"),
                            .scales = std::as_bytes(std::span(ones)),
                            .scale_dtype = DType::f32};
  std::vector<float> got(want.size());
  ASSERT_TRUE(decode_packed_rows(packed, 0, got).has_value());
  EXPECT_EQ(got, std::vector<float>(want.begin(), want.end()));
}

TEST(CheckpointFormat, EveryE4M3AndE8M0CodeEqualsItsGoldenTable) {
  const Formats formats;
  const std::vector<float> e4m3 = formats.f32("table.e4m3fn.f32");
  const std::vector<float> e8m0 = formats.f32("table.e8m0fnu.f32");
  ASSERT_EQ(e4m3.size(), 256U);
  ASSERT_EQ(e8m0.size(), 256U);
  std::vector<std::uint8_t> codes;
  for (unsigned code = 0; code < 256; ++code) codes.push_back(static_cast<std::uint8_t>(code));
  std::vector<float> decoded(256);
  const std::vector<float> one{1.0F, 1.0F};
  const PackedMatrix row{.format = CheckpointFormat::fp8_block128,
                         .rows = 1,
                         .cols = 256,
                         .values = std::as_bytes(std::span(codes)),
                         .scales = std::as_bytes(std::span(one)),
                         .scale_dtype = DType::f32};
  ASSERT_TRUE(decode_packed_rows(row, 0, decoded).has_value());
  for (const std::uint8_t code : codes) {
    if (std::isnan(e4m3[code])) {
      EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(code)) && std::isnan(decoded[code])) << int{code};
    } else {
      const std::vector<float> got{f8_e4m3_to_f32(code), decoded[code]};
      const std::vector<float> want(2, e4m3[code]);
      EXPECT_EQ(test::bits_of(got), test::bits_of(want)) << int{code};
    }
    const float power = f8_e8m0_to_f32(code);
    if (code == 0xFF) {
      EXPECT_TRUE(std::isnan(power));
    } else {
      EXPECT_EQ(test::bits_of({&power, 1}), test::bits_of({&e8m0[code], 1})) << int{code};
    }
  }
}

TEST(CheckpointFormat, Fp8BlocksAtTheEdgesAreCut) {
  // 130 x 129: four blocks, of which three are only one or two elements wide or high.
  constexpr std::uint64_t kRows = 130;
  constexpr std::uint64_t kCols = 129;
  const std::vector<std::uint8_t> ones(kRows * kCols, 0x38);  // 1.0
  const std::vector<float> scales{2.0F, 3.0F, 5.0F, 7.0F};
  const PackedMatrix packed{.format = CheckpointFormat::fp8_block128,
                            .rows = kRows,
                            .cols = kCols,
                            .values = std::as_bytes(std::span(ones)),
                            .scales = std::as_bytes(std::span(scales)),
                            .scale_dtype = DType::f32};
  std::vector<float> got(3 * kCols);
  ASSERT_TRUE(decode_packed_rows(packed, 127, got).has_value());
  EXPECT_EQ(got[0], 2.0F);
  EXPECT_EQ(got[127], 2.0F);
  EXPECT_EQ(got[128], 3.0F);
  EXPECT_EQ(got[kCols], 5.0F);
  EXPECT_EQ(got[kCols + 128], 7.0F);
  EXPECT_EQ(got[2 * kCols], 5.0F);
}

TEST(CheckpointFormat, Bf16AndF16ScalesAreTaken) {
  const std::vector<std::uint8_t> one{0x38};
  const std::vector<std::uint16_t> bf16{0x4040};  // 3
  PackedMatrix packed{.format = CheckpointFormat::fp8_block128,
                      .rows = 1,
                      .cols = 1,
                      .values = std::as_bytes(std::span(one)),
                      .scales = std::as_bytes(std::span(bf16)),
                      .scale_dtype = DType::bf16};
  std::vector<float> got(1);
  ASSERT_TRUE(decode_packed_rows(packed, 0, got).has_value());
  EXPECT_EQ(got[0], 3.0F);
  const std::vector<std::uint32_t> words(4, 0x99999999);  // eight values of 1 a word
  const std::vector<std::uint16_t> f16{0x4200};           // 3
  packed = {.format = CheckpointFormat::int4_group32,
            .rows = 1,
            .cols = 32,
            .values = std::as_bytes(std::span(words)),
            .scales = std::as_bytes(std::span(f16)),
            .scale_dtype = DType::f16};
  got.resize(32);
  ASSERT_TRUE(decode_packed_rows(packed, 0, got).has_value());
  EXPECT_EQ(got, std::vector<float>(32, 3.0F));
}

TEST(CheckpointFormat, NanCodesStayNan) {
  const std::vector<std::uint8_t> values(16, 0x22);
  const std::vector<std::uint8_t> nan{0xFF};
  const PackedMatrix packed{.format = CheckpointFormat::fp4_group32,
                            .rows = 1,
                            .cols = 32,
                            .values = std::as_bytes(std::span(values)),
                            .scales = std::as_bytes(std::span(nan)),
                            .scale_dtype = DType::u8};
  std::vector<float> got(32);
  ASSERT_TRUE(decode_packed_rows(packed, 0, got).has_value());
  EXPECT_TRUE(std::isnan(got[31]));
}

struct Refusal {
  const char* title;
  void (*break_it)(PackedMatrix&);
  std::string where;
  std::string text;
};

class CheckpointRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(CheckpointRefusal, NamesWhatIsWrong) {
  const std::vector<std::byte> bytes(1024);
  PackedMatrix packed{.format = CheckpointFormat::fp4_group32,
                      .rows = 8,
                      .cols = 64,
                      .values = std::span(bytes).first(256),
                      .scales = std::span(bytes).first(16),
                      .scale_dtype = DType::u8};
  ASSERT_TRUE(check_packed_matrix(packed).has_value());
  GetParam().break_it(packed);
  const Status status = check_packed_matrix(packed);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::runtime);
  EXPECT_EQ(status.error().where, GetParam().where);
  EXPECT_EQ(status.error().detail, GetParam().text);
  std::vector<float> out(1);
  EXPECT_FALSE(decode_packed_rows(packed, 0, std::span(out).first(0)).has_value());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CheckpointRefusal,
    testing::Values(
        Refusal{"ShortValues", [](PackedMatrix& m) { m.values = m.values.first(255); }, "values",
                "fp4_group32 matrix of 8 x 64 needs 256 bytes, not 255"},
        Refusal{"ShortScales", [](PackedMatrix& m) { m.scales = m.scales.first(15); }, "scales",
                "fp4_group32 matrix of 8 x 64 needs 16 bytes, not 15"},
        Refusal{"ScaleOfAnotherType", [](PackedMatrix& m) { m.scale_dtype = DType::bf16; },
                "scales", "fp4_group32 scales cannot be BF16"},
        Refusal{"E8M0ForInt4",
                [](PackedMatrix& m) {
                  m.format = CheckpointFormat::int4_group32;
                  m.scale_dtype = DType::f8_e8m0;
                },
                "scales", "int4_group32 scales cannot be F8_E8M0"},
        Refusal{"CutGroup", [](PackedMatrix& m) { m.cols = 63; }, "shape",
                "fp4_group32 matrix has 63 columns, no multiple of 32"},
        Refusal{"NoColumns", [](PackedMatrix& m) { m.cols = 0; }, "shape",
                "fp4_group32 matrix has no columns"},
        Refusal{"Overflow",
                [](PackedMatrix& m) {
                  m.rows = 1ULL << 60U;
                  m.cols = 1ULL << 20U;
                },
                "shape",
                "fp4_group32 matrix of 1152921504606846976 x 1048576 is larger than 2^64 bytes"}),
    [](const auto& refusal) { return refusal.param.title; });

TEST(CheckpointFormat, RowsBeyondTheMatrixAreRefused) {
  const std::vector<std::byte> bytes(64);
  const PackedMatrix packed{.format = CheckpointFormat::fp8_block128,
                            .rows = 8,
                            .cols = 8,
                            .values = bytes,
                            .scales = std::span(bytes).first(4),
                            .scale_dtype = DType::f32};
  std::vector<float> out(16);
  EXPECT_TRUE(decode_packed_rows(packed, 6, out).has_value());
  EXPECT_TRUE(decode_packed_rows(packed, 8, {}).has_value());
  for (const std::uint64_t first : {std::uint64_t{7}, std::numeric_limits<std::uint64_t>::max()}) {
    const Status status = decode_packed_rows(packed, first, out);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().where, "rows");
  }
  const Status status = decode_packed_rows(packed, 0, std::span(out).first(9));
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message(), "rows: 9 elements are no whole number of rows of 8");
}

}  // namespace
}  // namespace tenzro::tensor
