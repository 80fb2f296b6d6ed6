// The vectors of proto/vectors/receipts_v1.json, every number of them.
#include <bit>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"
#include "tenzro/receipts/commitment.hpp"
#include "tenzro/receipts/receipt.hpp"

namespace tenzro::receipts {
namespace {

nlohmann::json vectors(const char* section) {
  std::ifstream file(std::string(TENZRO_VECTORS) + "/receipts_v1.json");
  const nlohmann::json all = nlohmann::json::parse(file);
  return all.at(section);
}

std::vector<float> sample_outputs(std::size_t size) {
  std::vector<float> outputs(size);
  for (std::size_t i = 0; i < size; ++i) {
    outputs[i] = (static_cast<float>((i * 31) % 97) - 48.0F) / 10.0F;
  }
  return outputs;
}

std::string text_of(const nlohmann::json& section, const char* key) {
  return section.at(key).get<std::string>();
}

TEST(ReceiptVectors, Commitment) {
  const nlohmann::json v = vectors("commitment");
  const auto tokens = v.at("token_indices").get<std::vector<std::uint32_t>>();
  const auto d_model = v.at("d_model").get<std::uint32_t>();
  const Sketch sketch =
      make_sketch(tokens, sample_outputs(tokens.size() * d_model), d_model, v.at("k"));
  EXPECT_EQ(canonical_bytes(sketch).size(), v.at("canonical_bytes").get<std::size_t>());
  EXPECT_EQ(to_hex(commitment_of(sketch)), text_of(v, "commitment"));
  const nlohmann::json& row = v.at("row_0");
  ASSERT_EQ(sketch.rows.at(0).features.size(), row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    EXPECT_EQ(sketch.rows[0].features[i].index, row[i][0].get<std::uint32_t>());
    EXPECT_EQ(sketch.rows[0].features[i].value, row[i][1].get<float>());
  }
}

TEST(ReceiptVectors, DenseCarrier) {
  const nlohmann::json v = vectors("dense_carrier");
  const auto values = v.at("values").get<std::vector<float>>();
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_EQ(base64_encode(as_u8(bytes)), text_of(v, "base64"));
  EXPECT_EQ(to_hex(carrier_hash(CarrierKind::dense, bytes)), text_of(v, "carrier_hash"));
}

TEST(ReceiptVectors, Q8Carrier) {
  const nlohmann::json v = vectors("q8_carrier");
  std::vector<float> row(32);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = (static_cast<float>(i) - 16.0F) / 8.0F;
  std::vector<std::byte> blocks(34);
  encode_q8_rows(row, 32, blocks);
  EXPECT_EQ(base64_encode(as_u8(blocks)), text_of(v, "base64"));
  EXPECT_EQ(to_hex(carrier_hash(CarrierKind::q8_0, blocks)), text_of(v, "carrier_hash"));
}

TEST(ReceiptVectors, PayloadAndSignature) {
  const nlohmann::json v = vectors("payload");
  const std::string model = text_of(v, "model_id");
  const auto tokens = v.at("token_indices").get<std::vector<std::uint32_t>>();
  const Execution execution{.model = model,
                            .layer = v.at("layer").get<std::uint32_t>(),
                            .expert = v.at("expert").get<std::uint32_t>(),
                            .token_indices = tokens,
                            .carrier_kind = CarrierKind::dense,
                            .carrier = {},
                            .d_model = 0};
  const std::vector<std::uint8_t> payload =
      signing_payload(execution, hash_from_hex(text_of(v, "input_hash")).value(),
                      hash_from_hex(text_of(v, "commitment")).value());
  EXPECT_EQ(payload.size(), v.at("payload_bytes").get<std::size_t>());
  EXPECT_EQ(to_hex(crypto::sha256(payload)), text_of(v, "payload_sha256"));
  const auto key = crypto::KeyPair::from_seed(hash_from_hex(text_of(v, "seed")).value());
  EXPECT_EQ(to_hex(key.public_key()), text_of(v, "public_key"));
  EXPECT_EQ(to_hex(key.address()), text_of(v, "address"));
  EXPECT_EQ(to_hex(key.sign(payload)), text_of(v, "signature"));
}

}  // namespace
}  // namespace tenzro::receipts
