#include "tenzro/wire/provider_record.hpp"

#include <tuple>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/wire/beat.hpp"

namespace tenzro::wire {
namespace {

constexpr TypeTriple kQ4KM{12, 12, 14};

ProviderRecord plain_record() {
  ProviderRecord record;
  record.public_key.fill(7);
  record.version = {1'700'000'000'000, 41};
  record.wall_ms = 1'700'000'000'123;
  record.ttl_s = 30;
  record.name = "node-a";
  record.software = "0.1.0";
  record.addresses = {"203.0.113.7:9001"};
  record.http_endpoint = "http://203.0.113.7:8545";
  record.roles = 0b110;
  record.price_per_input_token = 10;
  record.minimum_price = 100;
  record.profiles = 3;
  return record;
}

/// `held` experts drawn from `experts` in each of `layers` layers, residency by chance.
ProviderRecord holder(std::uint64_t seed, LayerIndex layers, std::size_t held,
                      std::uint32_t experts) {
  Prng prng(seed);
  ProviderRecord record = plain_record();
  record.manifest_root.emplace().fill(9);
  HeldModel& model = record.models["deepseek-v3-671b-instruct"];
  for (LayerIndex layer = 3; layer < 3 + layers; ++layer) {
    while (model[layer].size() < held) {
      model[layer].emplace(static_cast<ExpertIndex>(prng.below(experts)),
                           HeldExpert{prng.below(2) == 0, kQ4KM});
    }
  }
  return record;
}

ProviderRecord round_trip(const ProviderRecord& record) {
  const auto bytes = encode_record(record);
  EXPECT_TRUE(bytes.has_value());
  auto decoded = decode_record(*bytes);
  EXPECT_TRUE(decoded.has_value()) << decoded.error().message();
  return decoded.value_or(ProviderRecord{});
}

TEST(ProviderRecord, IsReadBackAsWritten) {
  EXPECT_EQ(round_trip(plain_record()), plain_record());
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    ProviderRecord record = holder(seed, static_cast<LayerIndex>(1 + seed % 7), 1 + seed % 9,
                                   static_cast<std::uint32_t>(10 + 40 * (seed % 11)));
    HeldModel& second = record.models["other"];
    second[0][0] = {true, {255, 8, 8}};
    second[0][65'535] = {false, {0, 0, 0}};
    second[4'000'000'000][17] = {true, {12, 12, 14}};
    if (seed % 2 == 0) record.repair_free_bytes = seed * 1'000'000'000'000;
    if (seed % 3 == 0) record.repair_models = {"*", "other", "third"};
    record.expert_bytes["other"] = 1 + seed;
    EXPECT_EQ(round_trip(record), record) << seed;
  }
}

TEST(ProviderRecord, TellsOfRepairInBytesThatAnOlderNodeSkips) {
  ProviderRecord record = plain_record();
  const auto before = encode_record(record);
  record.repair_free_bytes = 1000;
  record.repair_models = {"m"};
  const auto after = encode_record(record);
  ASSERT_TRUE(before && after);
  std::vector<std::uint8_t> golden = *before;
  for (const int byte : {0x90, 0x01, 0xE8, 0x07, 0x9A, 0x01, 0x01, int{'m'}})
    golden.push_back(static_cast<std::uint8_t>(byte));
  EXPECT_EQ(*after, golden);
  // A field of a later version.
  for (const int byte : {0xF2, 0x01, 0x02, int{'h'}, int{'i'}})
    golden.push_back(static_cast<std::uint8_t>(byte));
  const auto decoded = decode_record(golden);
  ASSERT_TRUE(decoded) << decoded.error().message();
  EXPECT_EQ(*decoded, record);
}

TEST(ProviderRecord, WithModelsOfRepairThatRepeatOrAreTooManyIsRefused) {
  const auto plain = encode_record(plain_record());
  ASSERT_TRUE(plain);
  const auto with = [&](const std::vector<std::string>& models) {
    std::vector<std::uint8_t> bytes = *plain;
    for (const std::string& model : models) {
      bytes.insert(bytes.end(), {0x9A, 0x01, static_cast<std::uint8_t>(model.size())});
      bytes.insert(bytes.end(), model.begin(), model.end());
    }
    return decode_record(bytes).has_value();
  };
  EXPECT_TRUE(with({"a", "b"}));
  EXPECT_FALSE(with({"a", "a"}));
  EXPECT_FALSE(with({"b", "a"}));
  EXPECT_FALSE(with({""}));
  EXPECT_FALSE(with({"\n"}));
  std::vector<std::string> many;
  ProviderRecord record = plain_record();
  for (std::size_t i = 0; i <= kRecordRepairModelsMax; ++i) {
    many.push_back(std::string(1, static_cast<char>('0' + i)));
    record.repair_models.insert(many.back());
  }
  EXPECT_FALSE(with(many));
  EXPECT_FALSE(encode_record(record).has_value());
  many.pop_back();
  EXPECT_TRUE(with(many));
}

TEST(ProviderRecord, OfAHolderOf3840ExpertsFitsFourKibibytes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto bytes = encode_record(holder(seed, 60, 64, 384));
    ASSERT_TRUE(bytes.has_value());
    EXPECT_LE(bytes->size() + kSignatureBytes, 4096U) << seed;
  }
}

TEST(ProviderRecord, HoldsAHundredThousandExpertsHoweverTheyLie) {
  for (const auto& [layers, held, experts] :
       {std::tuple<LayerIndex, std::size_t, std::uint32_t>{300, 334, 384},
        {3000, 34, 512},
        {100'200, 1, 512}}) {
    const ProviderRecord record = holder(1, layers, held, experts);
    ASSERT_GE(record.holdings(), 100'000U);
    EXPECT_EQ(round_trip(record), record);
  }
}

TEST(ProviderRecord, WithMoreHoldingsThanItMayHoldIsNotWritten) {
  const auto bytes = encode_record(holder(1, 400, 384, 384));
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().code, ErrorCode::no_space);
}

TEST(ProviderRecord, CutAnywhereIsRefusedOrNotTheSame) {
  const ProviderRecord record = holder(3, 2, 9, 64);
  const auto bytes = encode_record(record);
  ASSERT_TRUE(bytes.has_value());
  for (std::size_t size = 0; size < bytes->size(); ++size) {
    const auto decoded = decode_record(std::span(*bytes).first(size));
    if (decoded) {
      EXPECT_NE(*decoded, record) << size;
    }
  }
}

TEST(ProviderRecord, WithAWrongKeyLengthAnUnknownRoleOrControlCharactersIsRefused) {
  const auto refused = [](const ProviderRecord& record) {
    const auto bytes = encode_record(record);
    return !decode_record(*bytes).has_value();
  };
  ProviderRecord record = plain_record();
  record.roles = 0x80;
  EXPECT_TRUE(refused(record));
  record = plain_record();
  record.name = "a\nb";
  EXPECT_TRUE(refused(record));
  record = plain_record();
  record.name = std::string(257, 'a');
  EXPECT_TRUE(refused(record));
  record = plain_record();
  record.addresses.assign(17, "a:1");
  EXPECT_TRUE(refused(record));
  record = plain_record();
  record.version.incarnation = Version::kIncarnationMax + 1;
  EXPECT_TRUE(refused(record));
  record = plain_record();
  record.ttl_s = 0;
  EXPECT_TRUE(refused(record));
  EXPECT_FALSE(decode_record({}).has_value());
}

TEST(ProviderRecord, VersionsOrderByIncarnationThenSequence) {
  const Version a{5, 9};
  const Version b{6, 0};
  EXPECT_LT(a, b);
  EXPECT_LT(a.packed(), b.packed());
  EXPECT_LT((Version{5, Version::kSequenceMax}.packed()), b.packed());
}

TEST(Beat, IsReadBackAndFits256Bytes) {
  Beat beat{.version = {Version::kIncarnationMax, Version::kSequenceMax},
            .wall_ms = 1'900'000'000'000,
            .load = {4'000'000'000, 4'000'000'000, 4'000'000'000, true},
            .is_leaving = true};
  beat.public_key.fill(3);
  beat.record_digest.fill(4);
  const auto bytes = encode_beat(beat);
  EXPECT_LE(bytes.size() + kSignatureBytes, 200U);
  const auto decoded = decode_beat(bytes);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(*decoded, beat);
}

TEST(Beat, UnknownFieldsAreSkippedAndVersionsOutOfRangeRefused) {
  const Beat beat{.version = {7, 9}, .wall_ms = 11};
  auto bytes = encode_beat(beat);
  bytes.insert(bytes.end(), {0x58, 5, 0x62, 1, 1});  // fields 11 and 12
  EXPECT_EQ(decode_beat(bytes).value(), beat);
  auto late = bytes;
  late.insert(late.end(), {0x18, 0x80, 0x80, 0x80, 0x02});  // sequence 2^22
  EXPECT_FALSE(decode_beat(late).has_value());
  bytes.insert(bytes.end(), {0x10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02});  // incarnation 2^43
  EXPECT_FALSE(decode_beat(bytes).has_value());
}

TEST(Beat, WithAWrongLengthIsRefused) {
  Beat beat;
  const auto bytes = encode_beat(beat);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = decode_beat(std::span(bytes).first(size));
    if (decoded) {
      EXPECT_EQ(decoded->public_key, beat.public_key);
    }
  }
  const std::vector<std::uint8_t> long_bytes(kBeatBytesMax, 0);
  EXPECT_FALSE(decode_beat(long_bytes).has_value());
  EXPECT_FALSE(decode_beat({}).has_value());
}

TEST(Sealed, NeedsMoreBytesThanASignature) {
  const std::vector<std::uint8_t> bytes(kSignatureBytes, 1);
  EXPECT_FALSE(split_sealed(bytes).has_value());
  const std::vector<std::uint8_t> more(kSignatureBytes + 2, 1);
  EXPECT_EQ(split_sealed(more)->body.size(), 2U);
}

}  // namespace
}  // namespace tenzro::wire
