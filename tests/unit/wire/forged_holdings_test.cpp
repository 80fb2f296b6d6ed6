// Records that claim what they cannot hold: each bend of the holdings is refused.
#include <functional>

#include <gtest/gtest.h>

#include "tenzro/wire/provider_record.hpp"

#include "record.pb.h"

namespace tenzro::wire {
namespace {

/// One model, two layers: a bitmap of experts {0, 3, 8, 9, 10, 11} and a list of {200}.
proto::Record honest() {
  proto::Record record;
  record.set_public_key(std::string(32, 'k'));
  record.set_ttl_s(30);
  proto::ModelHoldings& model = *record.add_models();
  model.set_model_id("m");
  model.add_layer_gaps(2);
  model.add_layer_gaps(1);
  model.add_held_sizes(2 * 2);
  model.add_held_sizes(2 * 2 + 1);
  model.set_held("\x09\x0F\xC8\x01");
  model.set_warm("\x7F");
  model.add_type_runs(7);
  model.add_type_runs(12 | 12 << 8 | 14 << 16);
  return record;
}

Result<ProviderRecord> read(const proto::Record& record) {
  const std::string bytes = record.SerializeAsString();
  return decode_record({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

TEST(ForgedHoldings, TheHonestOneIsRead) {
  const auto record = read(honest());
  ASSERT_TRUE(record.has_value()) << record.error().message();
  EXPECT_EQ(record->holdings(), 7U);
  EXPECT_TRUE(record->models.at("m").at(2).contains(11));
  EXPECT_TRUE(record->models.at("m").at(3).contains(200));
}

TEST(ForgedHoldings, EveryBendIsRefused) {
  using Bend = std::function<void(proto::ModelHoldings&)>;
  const std::vector<std::pair<const char*, Bend>> bends{
      {"a bitmap longer than the bytes", [](auto& m) { m.set_held_sizes(0, 5 * 2); }},
      {"a bitmap shorter than the bytes", [](auto& m) { m.set_held_sizes(0, 1 * 2); }},
      {"an empty bitmap", [](auto& m) { m.set_held_sizes(0, 0); }},
      {"a bitmap that ends in zeros",
       [](auto& m) {
         m.set_held_sizes(0, 3 * 2);
         m.set_held(std::string("\x09\x0F\x00\xC8\x01", 5));
       }},
      {"a bitmap of no expert", [](auto& m) { m.set_held(std::string("\x00\x00\xC8\x01", 4)); }},
      {"bytes that no layer takes", [](auto& m) { m.set_held(m.held() + "\x01"); }},
      {"a list cut within a number", [](auto& m) { m.set_held("\x09\x0F\x08\xC8"); }},
      {"a list with a longer form",
       [](auto& m) { m.set_held(std::string("\x09\x0F\x88\x00", 4)); }},
      {"an expert twice in a list",
       [](auto& m) { m.set_held(std::string("\x09\x0F\x08\x00", 4)); }},
      {"residency of fewer", [](auto& m) { m.set_warm(""); }},
      {"residency of more", [](auto& m) { m.set_warm("\x7F\x01"); }},
      {"types of fewer", [](auto& m) { m.set_type_runs(0, 6); }},
      {"types of more", [](auto& m) { m.set_type_runs(0, 8); }},
      {"an empty run of types", [](auto& m) { m.set_type_runs(0, 0); }},
      {"types beyond three bytes", [](auto& m) { m.set_type_runs(1, 1U << 24U); }},
      {"half a run", [](auto& m) { m.add_type_runs(1); }},
      {"no types", [](auto& m) { m.clear_type_runs(); }},
      {"a layer twice", [](auto& m) { m.set_layer_gaps(1, 0); }},
      {"a layer too large", [](auto& m) { m.set_layer_gaps(1, UINT32_MAX); }},
      {"fewer sizes than layers", [](auto& m) { m.add_layer_gaps(1); }},
      {"no layers",
       [](auto& m) {
         m.clear_layer_gaps();
         m.clear_held_sizes();
       }},
      {"no model", [](auto& m) { m.set_model_id(""); }}};
  for (const auto& [what, bend] : bends) {
    proto::Record record = honest();
    bend(*record.mutable_models(0));
    EXPECT_FALSE(read(record).has_value()) << what;
  }
  proto::Record twice = honest();
  *twice.add_models() = twice.models(0);
  EXPECT_FALSE(read(twice).has_value()) << "a model twice";
}

/// `layers` layers, each a full bitmap of `bytes` bytes.
proto::Record full(unsigned layers, std::size_t bytes) {
  proto::Record record = honest();
  proto::ModelHoldings& model = *record.mutable_models(0);
  model.clear_layer_gaps();
  model.clear_held_sizes();
  for (unsigned i = 0; i < layers; ++i) {
    model.add_layer_gaps(1);
    model.add_held_sizes(static_cast<std::uint32_t>(bytes * 2));
  }
  model.set_held(std::string(layers * bytes, '\xFF'));
  model.set_warm(std::string(layers * bytes, '\xFF'));
  model.set_type_runs(0, static_cast<std::uint32_t>(layers * bytes * 8));
  return record;
}

TEST(ForgedHoldings, MoreExpertsThanARecordMayHoldAreRefusedHoweverTheyAreSpread) {
  constexpr std::size_t kLayerBytes = 8192;  // 65,536 experts
  const auto most = read(full(2, kLayerBytes));
  ASSERT_TRUE(most.has_value()) << most.error().message();
  EXPECT_EQ(most->holdings(), kRecordHoldingsMax);
  EXPECT_FALSE(read(full(3, kLayerBytes)).has_value());
  EXPECT_FALSE(read(full(kRecordHoldingsMax / 8 + 1, 1)).has_value());
  EXPECT_FALSE(read(full(1, kLayerBytes + 1)).has_value()) << "beyond the largest index";
  // Spread over models: the count is of the whole record.
  proto::Record record = full(2, kLayerBytes);
  *record.add_models() = honest().models(0);
  record.mutable_models(1)->set_model_id("n");
  EXPECT_FALSE(read(record).has_value());
}

}  // namespace
}  // namespace tenzro::wire
