#include "tenzro/receipts/carrier.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tenzro/base/bytes.hpp"

namespace tenzro::receipts {
namespace {

std::vector<float> rows_of(std::size_t size) {
  std::vector<float> rows(size);
  for (std::size_t i = 0; i < size; ++i) {
    rows[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i % 7);
  }
  return rows;
}

std::vector<std::byte> encoded(const std::vector<float>& rows, std::uint32_t d_model) {
  std::vector<std::byte> bytes(q8_carrier_bytes(rows.size() / d_model, d_model).value());
  encode_q8_rows(rows, d_model, bytes);
  return bytes;
}

TEST(CarrierHash, TellsTheKindsApart) {
  const std::vector<std::byte> bytes(34);
  EXPECT_NE(carrier_hash(CarrierKind::dense, bytes), carrier_hash(CarrierKind::q8_0, bytes));
}

TEST(Q8Carrier, DecodesToWithinHalfAStepOfEachBlock) {
  const std::vector<float> rows = rows_of(3 * 64);
  std::vector<float> back(rows.size());
  ASSERT_TRUE(decode_q8_rows(encoded(rows, 64), 3, 64, back).has_value());
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(back[i], rows[i], 6.0F / 127.0F) << i;
}

TEST(Q8Carrier, RoundedRowsAreAFixedPoint) {
  const std::vector<float> rows = rows_of(2 * 32);
  std::vector<float> once(rows.size());
  ASSERT_TRUE(decode_q8_rows(encoded(rows, 32), 2, 32, once).has_value());
  std::vector<float> twice(rows.size());
  ASSERT_TRUE(decode_q8_rows(encoded(once, 32), 2, 32, twice).has_value());
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(twice[i], once[i], 1e-2F) << i;
}

TEST(Q8Carrier, OnlyFiniteRowsOfWholeBlocksAndModestSizeQualify) {
  EXPECT_TRUE(can_be_q8(std::vector<float>(64, kQ8AmaxMax), 64));
  EXPECT_TRUE(can_be_q8(std::vector<float>(64, -kQ8AmaxMax), 32));
  EXPECT_FALSE(can_be_q8(std::vector<float>(64, 8.4e6F), 64));
  EXPECT_FALSE(can_be_q8({}, 32));
  EXPECT_FALSE(can_be_q8(std::vector<float>(33, 1), 33));
  EXPECT_FALSE(can_be_q8(std::vector<float>(16, 1), 16));
  EXPECT_FALSE(can_be_q8(std::vector<float>(32, 1), 0));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> rows(64, 1);
    rows[63] = bad;
    EXPECT_FALSE(can_be_q8(rows, 32));
  }
}

TEST(Q8Carrier, LargestValueThatQualifiesStillHasAFiniteScale) {
  std::vector<float> back(32);
  EXPECT_TRUE(
      decode_q8_rows(encoded(std::vector<float>(32, kQ8AmaxMax), 32), 1, 32, back).has_value());
  EXPECT_TRUE(std::isfinite(back[0]));
}

std::string refusal(const std::vector<std::byte>& bytes, std::uint64_t rows,
                    std::uint32_t d_model) {
  std::vector<float> out(std::size_t{2} * 64);
  const Status status = decode_q8_rows(bytes, rows, d_model, out);
  if (status) return "(accepted)";
  EXPECT_EQ(status.error().code, ErrorCode::invalid_params);
  return status.error().message();
}

TEST(Q8Carrier, AnyOtherLengthIsRefused) {
  EXPECT_EQ(refusal(std::vector<std::byte>(136), 2, 64), "(accepted)");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{34}, std::size_t{135}, std::size_t{137}, std::size_t{170}}) {
    EXPECT_EQ(refusal(std::vector<std::byte>(size), 2, 64),
              "hidden_q8: payload of " + std::to_string(size) +
                  " bytes does not match 2 tokens x d_model 64, which take 136");
  }
  EXPECT_EQ(refusal(std::vector<std::byte>(136), 2, 65),
            "hidden_q8: payload of 136 bytes does not match 2 tokens x d_model 65");
  EXPECT_EQ(refusal({}, 2, 0), "hidden_q8: payload of 0 bytes does not match 2 tokens x d_model 0");
  EXPECT_EQ(refusal({}, UINT64_MAX, 64),
            "hidden_q8: payload of 0 bytes does not match 18446744073709551615 tokens x d_model "
            "64");
}

TEST(Q8Carrier, BadScaleOrMinus128IsRefusedNamingTheRow) {
  std::vector<std::byte> bytes(136);
  bytes[68 + 34 + 1] = std::byte{0x7C};  // the high byte of the last scale: infinity
  EXPECT_EQ(refusal(bytes, 2, 64), "hidden_q8: row 1 holds a non-finite scale");
  bytes[68 + 34 + 1] = std::byte{0};
  bytes[33] = std::byte{0x80};
  EXPECT_EQ(refusal(bytes, 2, 64), "hidden_q8: row 0 holds the value -128");
}

}  // namespace
}  // namespace tenzro::receipts
