#include "tenzro/receipts/receipt_json.hpp"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tenzro/base/prng.hpp"

namespace tenzro::receipts {
namespace {

Receipt sample() {
  Prng prng(4);
  Receipt receipt;
  const auto fill = [&](auto& bytes) {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(prng.next());
  };
  fill(receipt.provider);
  fill(receipt.input_hash);
  fill(receipt.commitment);
  fill(receipt.signature);
  fill(receipt.public_key);
  return receipt;
}

std::string refusal(const nlohmann::json& json) {
  const Result<Receipt> receipt = receipt_from_json(json.dump());
  if (receipt) return "(accepted)";
  EXPECT_EQ(receipt.error().code, ErrorCode::runtime);
  EXPECT_EQ(receipt.error().where, "receipt");
  return receipt.error().detail;
}

nlohmann::json sample_json() {
  return nlohmann::json::parse(receipt_to_json(sample()));
}

TEST(ReceiptJson, RoundTrips) {
  const Result<Receipt> read = receipt_from_json(receipt_to_json(sample()));
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(*read, sample());
}

TEST(ReceiptJson, IsWrittenAsOtherImplementationsReadIt) {
  Receipt receipt;
  receipt.provider.fill(255);
  const std::string text = receipt_to_json(receipt);
  EXPECT_TRUE(text.starts_with(R"({"provider":[255,255,)"));
  const nlohmann::json json = nlohmann::json::parse(text);
  EXPECT_EQ(json.size(), 5U);
  EXPECT_EQ(json.at("provider").size(), 32U);
  EXPECT_EQ(json.at("input_hash").size(), 32U);
  EXPECT_EQ(json.at("commitment").size(), 32U);
  EXPECT_EQ(json.at("signature").at("key_type"), "Ed25519");
  EXPECT_EQ(json.at("signature").at("bytes").size(), 64U);
  EXPECT_EQ(json.at("public_key").at("key_type"), "Ed25519");
  EXPECT_EQ(json.at("public_key").at("bytes").size(), 32U);
}

TEST(ReceiptJson, LongestTextStaysBelowAKibibyte) {
  Receipt receipt;
  receipt.provider.fill(255);
  receipt.input_hash.fill(255);
  receipt.commitment.fill(255);
  receipt.signature.fill(255);
  receipt.public_key.fill(255);
  EXPECT_LT(receipt_to_json(receipt).size(), 1024U);
}

TEST(ReceiptJson, UnknownMembersAreIgnored) {
  nlohmann::json json = sample_json();
  json["version"] = 1;
  json["signature"]["note"] = {{"a", nullptr}};
  EXPECT_EQ(refusal(json), "(accepted)");
}

TEST(ReceiptJson, EveryMemberIsRequired) {
  for (const char* key : {"provider", "input_hash", "commitment"}) {
    nlohmann::json json = sample_json();
    json.erase(key);
    EXPECT_EQ(refusal(json), '\'' + std::string(key) + "' must be 32 integers from 0 to 255");
  }
  for (const char* key : {"signature", "public_key"}) {
    nlohmann::json json = sample_json();
    json.erase(key);
    EXPECT_EQ(refusal(json), '\'' + std::string(key) + ".key_type' must be a string");
    json = sample_json();
    json[key].erase("bytes");
    const char* size = std::string(key) == "signature" ? "64" : "32";
    EXPECT_EQ(refusal(json),
              '\'' + std::string(key) + ".bytes' must be " + size + " integers from 0 to 255");
  }
}

TEST(ReceiptJson, ListsOfOtherLengthOrContentAreRefused) {
  const std::string problem = "'commitment' must be 32 integers from 0 to 255";
  const std::vector<nlohmann::json> wrong{256, -1, 1.0, "7", nullptr, nlohmann::json::array()};
  for (const nlohmann::json& element : wrong) {
    nlohmann::json json = sample_json();
    json["commitment"][31] = element;
    EXPECT_EQ(refusal(json), problem) << element.dump();
  }
  nlohmann::json longer = sample_json();
  longer["commitment"].push_back(0);
  EXPECT_EQ(refusal(longer), problem);
  nlohmann::json shorter = sample_json();
  shorter["commitment"].erase(0);
  EXPECT_EQ(refusal(shorter), problem);
  nlohmann::json text = sample_json();
  text["commitment"] = std::string(64, '0');
  EXPECT_EQ(refusal(text), problem);
}

TEST(ReceiptJson, OtherKeyTypesAreRefusedByName) {
  nlohmann::json json = sample_json();
  json["public_key"]["key_type"] = "Secp256k1";
  EXPECT_EQ(refusal(json), "unsupported key type 'Secp256k1'");
}

TEST(ReceiptJson, TextThatIsNotOneObjectIsRefused) {
  EXPECT_EQ(refusal(nlohmann::json::array()), "not a JSON object");
  EXPECT_EQ(refusal(nullptr), "not a JSON object");
  EXPECT_FALSE(receipt_from_json(receipt_to_json(sample()) + '}').has_value());
  EXPECT_FALSE(receipt_from_json(R"({"provider":[],"provider":[]})").has_value());
  EXPECT_FALSE(receipt_from_json(std::string(kReceiptJsonBytesMax, ' ') + "{}").has_value());
}

}  // namespace
}  // namespace tenzro::receipts
