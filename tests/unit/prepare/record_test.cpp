// What the log keeps comes back as it was, and what is no record gives nothing.
#include "record.hpp"

#include <gtest/gtest.h>

#include "tenzro/wire/uri.hpp"

namespace tenzro::prepare {
namespace {

JobRecord full() {
  JobRecord record;
  record.call = {.model = "m\"\\é",
                 .layer = 3,
                 .experts = std::vector<ExpertIndex>{1, 4},
                 .include_gate = false,
                 .quant = rpc::QuantPlan{tensor::WeightType::q4_k, std::nullopt,
                                         tensor::WeightType::q6_k, R"({"gate":"q4_k"})"},
                 .strict = true,
                 .dense_f32 = true,
                 .imatrix = "imatrix.gguf",
                 .source = "https://h/m",
                 .layers = {3, 5},
                 .has_all_layers = false,
                 .loads = true};
  record.state = rpc::PrepareState::failed;
  record.error = "no\nspace";
  record.layers = {3, 5};
  record.total_experts = 4;
  record.files = {{"a", {7, "\"v\"", "0123abc"}}, {"b", {UINT64_MAX, ""}}};
  return record;
}

TEST(Record, OfAJobComesBackAsItWas) {
  const JobRecord record = full();
  const auto read = read_job_record(to_text(record));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(to_text(*read), to_text(record));
  EXPECT_EQ(read->call.model, record.call.model);
  EXPECT_EQ(read->call.quant->down, tensor::WeightType::q6_k);
  EXPECT_EQ(read->call.quant->up, std::nullopt);
  EXPECT_EQ(read->call.experts, record.call.experts);
  EXPECT_EQ(read->files, record.files);
  EXPECT_EQ(read->state, rpc::PrepareState::failed);
  JobRecord plain{.call = {.model = "m"}, .error = std::nullopt, .layers = {0}, .files = {}};
  EXPECT_EQ(to_text(*read_job_record(to_text(plain))), to_text(plain));
}

TEST(Record, WithAnythingWrongGivesNothing) {
  const std::string good = to_text(full());
  EXPECT_FALSE(read_job_record(""));
  EXPECT_FALSE(read_job_record("[]"));
  EXPECT_FALSE(read_job_record(good.substr(0, good.size() - 1)));
  const auto spoiled = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return read_job_record(text.replace(at, from.size(), to)).has_value();
  };
  EXPECT_FALSE(spoiled("\"v\":1", "\"v\":2"));
  EXPECT_FALSE(spoiled("\"failed\"", "\"odd\""));
  EXPECT_FALSE(spoiled("\"q6_k\"", "\"q9\""));
  EXPECT_FALSE(spoiled("\"layer\":3", "\"layer\":-3"));
  EXPECT_FALSE(spoiled("\"layers\":[3,5]", "\"layers\":[4294967296]"));
  EXPECT_FALSE(spoiled("\"strict\":true", "\"strict\":1"));
  EXPECT_FALSE(spoiled("\"bytes\":7", "\"bytes\":\"7\""));
}

TEST(Record, OfAPartNamesItAndItsTypes) {
  rpc::PreparedBlob blob{.layer = 3,
                         .expert = 17,
                         .uri = {},
                         .bytes = 99,
                         .quant = tensor::WeightType::q4_k,
                         .gate_type = std::nullopt,
                         .up_type = tensor::WeightType::q4_k,
                         .down_type = tensor::WeightType::q8_0};
  EXPECT_EQ(part_name(3, 17), "3/17");
  EXPECT_EQ(part_name(3, std::nullopt), "3/gate");
  work::LoggedPart logged{part_name(3, 17), to_text(blob), BlobHash{1}, 99, true};
  const auto part = read_part(logged);
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->expert, 17U);
  EXPECT_EQ(part->blob.layer, 3U);
  EXPECT_EQ(part->blob.uri, wire::format_blob_uri(BlobHash{1}));
  EXPECT_EQ(part->blob.down_type, tensor::WeightType::q8_0);
  EXPECT_EQ(part->blob.gate_type, std::nullopt);
  logged.name = "3/gate";
  EXPECT_EQ(read_part(logged)->expert, std::nullopt);
  for (const char* name : {"", "3", "3/", "/4", "a/b", "3/-1"}) {
    logged.name = name;
    EXPECT_FALSE(read_part(logged)) << name;
  }
  logged = {"3/1", "nonsense", BlobHash{1}, 99, true};
  EXPECT_FALSE(read_part(logged));
}

}  // namespace
}  // namespace tenzro::prepare
