// Receipts of version 2: the vectors of proto/vectors/receipts_v2.json, and naive twins of the
// hashes.
#include "tenzro/receipts/receipt_set.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"
#include "tenzro/crypto/sha256.hpp"
#include "tenzro/receipts/commitment.hpp"

namespace tenzro::receipts {
namespace {

using nlohmann::json;

json vectors() {
  std::ifstream file(std::string(TENZRO_VECTORS) + "/receipts_v2.json");
  return json::parse(file);
}

Hash32 hash_of(const json& hex) {
  return hash_from_hex(hex.get<std::string>()).value();
}

/// The set of the vectors: everything it was computed from.
struct VectorSet {
  json v = vectors().at("set");
  std::string model = v.at("model_id");
  std::vector<std::uint32_t> tokens = v.at("tokens");
  std::uint32_t width = v.at("d_model");
  std::vector<float> inputs;
  std::vector<std::vector<std::uint32_t>> rows;
  std::vector<std::vector<float>> outputs;
  std::vector<SetBatch> batches;
  SetExecution execution;
  crypto::KeyPair key = crypto::KeyPair::from_seed(hash_of(v.at("seed")));
  compute::SerialExecutor executor;

  VectorSet() {
    for (std::uint32_t i = 0; i < tokens.size() * width; ++i) {
      inputs.push_back((static_cast<float>(i * 17 % 89) - 44.0F) / 8.0F);
    }
    rows.reserve(v.at("experts").size());
    outputs.reserve(v.at("experts").size());
    for (const json& expert : v.at("experts")) add(expert);
    const std::string nonce = v.at("nonce");
    const Hash32 twice = hash_from_hex(nonce + nonce).value();
    execution = {.model = model,
                 .layer = v.at("layer"),
                 .carrier = std::as_bytes(std::span(inputs)),
                 .width = width,
                 .tokens = tokens,
                 .router = hash_of(v.at("router_endpoint_id"))};
    std::copy_n(twice.begin(), execution.nonce.size(), execution.nonce.begin());
  }

  VectorSet(const VectorSet&) = delete;
  VectorSet& operator=(const VectorSet&) = delete;

  void add(const json& expert) {
    const std::uint32_t index = expert.at("expert");
    rows.push_back(expert.at("rows"));
    std::vector<float>& values = outputs.emplace_back();
    for (std::uint32_t i = 0; i < rows.back().size() * width; ++i) {
      values.push_back((static_cast<float>((i + 7 * index) * 31 % 97) - 48.0F) / 10.0F);
    }
    const json& types = expert.at("types");
    batches.push_back({index, rows.back(), values, hash_of(expert.at("blob_hash")), types[0],
                       types[1], types[2]});
  }

  [[nodiscard]] ReceiptSet make() { return make_set(key, execution, batches, executor); }

  [[nodiscard]] std::string verdict(const ReceiptSet& set) {
    const Status status = verify_set(key.public_key(), execution, batches, set, executor);
    if (status) return "(accepted)";
    EXPECT_EQ(status.error().code, ErrorCode::forbidden);
    return status.error().message();
  }
};

TEST(ReceiptSetVectors, HashesPayloadsAndSignature) {
  VectorSet vector;
  const ReceiptSet set = vector.make();
  std::vector<Hash32> payloads;
  for (std::size_t i = 0; i < set.experts.size(); ++i) {
    const json& expert = vector.v.at("experts")[i];
    EXPECT_EQ(set.experts[i].input_hash, hash_of(expert.at("input_hash")));
    EXPECT_EQ(set.experts[i].commitment, hash_of(expert.at("commitment")));
    EXPECT_EQ(set.experts[i].rows_hash, hash_of(expert.at("rows_hash")));
    const auto payload = set_payload(vector.execution, vector.rows[i], set.experts[i],
                                     hash_of(vector.v.at("provider")));
    EXPECT_EQ(payload.size(), expert.at("payload_bytes").get<std::size_t>());
    payloads.push_back(crypto::sha256(payload));
    EXPECT_EQ(payloads.back(), hash_of(expert.at("payload_sha256")));
  }
  const auto message = set_message(payloads);
  EXPECT_EQ(message.size(), vector.v.at("message_bytes").get<std::size_t>());
  EXPECT_EQ(crypto::sha256(message), hash_of(vector.v.at("message_sha256")));
  EXPECT_EQ(set.key, hash_of(vector.v.at("public_key")));
  EXPECT_EQ(to_hex(set.signature), vector.v.at("signature").get<std::string>());
  EXPECT_EQ(vector.verdict(set), "(accepted)");
}

TEST(ReceiptSetVectors, RowsRoundToNearestEven) {
  const json v = vectors().at("bf16");
  std::vector<float> values;
  for (const std::uint32_t bits : v.at("f32_bits")) values.push_back(std::bit_cast<float>(bits));
  EXPECT_EQ(hash_rows(values, static_cast<std::uint32_t>(values.size())),
            hash_of(v.at("rows_hash")));
}

TEST(ReceiptSet, EveryFieldIsBoundByTheSignature) {
  VectorSet vector;
  const ReceiptSet good = vector.make();
  const std::vector<std::function<void(ReceiptSet&)>> bends{
      [](auto& set) { set.experts[1].input_hash[0] ^= 1; },
      [](auto& set) { set.experts[1].commitment[0] ^= 1; },
      [](auto& set) { set.experts[1].rows_hash[0] ^= 1; },
      [](auto& set) { set.experts[1].blob[0] ^= 1; },
      [](auto& set) { set.experts[1].gate_type = 0; },
      [](auto& set) { set.experts[1].up_type = 1; },
      [](auto& set) { set.experts[1].down_type = 1; },
      [](auto& set) { set.signature[0] ^= 1; },
      [](auto& set) { set.key[0] ^= 1; },
      [](auto& set) { set.profile = compute::Profile::fast; },
      [](auto& set) { std::swap(set.experts[0], set.experts[1]); },
      [](auto& set) { set.experts.pop_back(); },
      [](auto& set) { set.experts[0].rows = 2; }};
  for (std::size_t i = 0; i < bends.size(); ++i) {
    ReceiptSet bent = good;
    bends[i](bent);
    EXPECT_NE(vector.verdict(bent), "(accepted)") << i;
  }
}

TEST(ReceiptSet, BlobMattersOnlyWhereItIsNamed) {
  VectorSet vector;
  const ReceiptSet good = vector.make();
  vector.batches[0].blob = BlobHash{};
  EXPECT_EQ(vector.verdict(good), "(accepted)");
  vector.batches[0].blob = BlobHash{1};
  EXPECT_EQ(vector.verdict(good), "expert 3/42 receipt: another blob than the holder declared");
}

TEST(ReceiptSet, AnotherRequestsNonceRouterOrTokensAreRefused) {
  VectorSet vector;
  const ReceiptSet good = vector.make();
  const SetExecution asked = vector.execution;
  vector.execution.nonce[0] ^= 1;
  EXPECT_EQ(vector.verdict(good), "receipt set: bad signature");
  vector.execution = asked;
  vector.execution.router[0] ^= 1;
  EXPECT_EQ(vector.verdict(good), "receipt set: bad signature");
  vector.execution = asked;
  vector.execution.layer += 1;
  EXPECT_EQ(vector.verdict(good), "receipt set: bad signature");
}

/// The definition, by sorting everything.
std::vector<std::uint8_t> naive_sketch(std::span<const std::uint32_t> names,
                                       std::span<const std::uint32_t> rows,
                                       std::span<const float> outputs, std::uint32_t width) {
  std::vector<std::uint8_t> bytes;
  append_text(bytes, "tenzro/moe/activation");
  bytes.push_back(8);
  append_u32_le(bytes, static_cast<std::uint32_t>(rows.size()));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::span<const float> row = outputs.subspan(r * width, width);
    std::vector<std::uint32_t> order(width);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [row](std::uint32_t a, std::uint32_t b) {
      return std::fabs(row[a]) > std::fabs(row[b]);
    });
    order.resize(std::min<std::size_t>(8, width));
    append_u32_le(bytes, names[rows[r]]);
    bytes.push_back(static_cast<std::uint8_t>(order.size()));
    for (const std::uint32_t index : order) {
      append_u32_le(bytes, index);
      append_u32_le(bytes, std::bit_cast<std::uint32_t>(row[index]));
    }
  }
  return bytes;
}

TEST(ReceiptSet, SketchOfRowsEqualsItsDefinitionOnRandomRows) {
  Prng prng(77);
  for (int round = 0; round < 200; ++round) {
    // Narrow rows, and such as are searched in several goes.
    const auto width = static_cast<std::uint32_t>(1 + prng.below(round % 4 == 0 ? 9000 : 150));
    const std::size_t count = 1 + prng.below(4);
    // Few distinct magnitudes: ties decide often.
    const std::uint64_t distinct = 1 + prng.below(round % 8 == 0 ? 4000 : 40);
    std::vector<float> outputs(count * width);
    for (float& value : outputs) {
      value = static_cast<float>(prng.below(distinct)) * (prng.below(2) == 0 ? -0.5F : 0.5F);
    }
    const std::vector<std::uint32_t> names{7, 8, 9, 1000, 70000};
    std::vector<std::uint32_t> rows(count);
    std::iota(rows.begin(), rows.end(), static_cast<std::uint32_t>(prng.below(2)));
    ASSERT_EQ(canonical_bytes_of_rows(names, rows, outputs, width),
              naive_sketch(names, rows, outputs, width))
        << "width " << width << " rows " << count << " distinct " << distinct;
  }
}

}  // namespace
}  // namespace tenzro::receipts
