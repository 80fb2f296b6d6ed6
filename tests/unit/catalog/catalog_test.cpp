#include "tenzro/catalog/catalog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenzro::catalog {
namespace {

using ::testing::HasSubstr;

const std::string kFamily = R"([family.f]
architecture = "F"
layout = "qwen3_moe"
)";
const std::string kModel = R"([[model]]
id = "m"
family = "f"
repo = "o/n"
layers = 4
hidden = 8
expert_ffn = 16
num_experts = 12
experts_per_token = 3
)";

std::string error_of(const std::string& toml) {
  const Result<Catalog> parsed = Catalog::parse(toml);
  if (parsed) return "parsed";
  EXPECT_EQ(parsed.error().code, ErrorCode::invalid_params);
  return parsed.error().message();
}

/// The small catalog with one line more in the model.
std::string with(const std::string& line) {
  return kFamily + kModel + line + "\n";
}

TEST(CatalogParse, SyntaxErrorsNameTheLine) {
  EXPECT_THAT(error_of("\n\n[family"), HasSubstr("catalog: line 3: "));
}

TEST(CatalogParse, UnknownKeysNameKeyAndLine) {
  EXPECT_THAT(error_of(with("top_k = 3")), HasSubstr("line 13: unknown key 'top_k' in [[model]]"));
  EXPECT_THAT(error_of("x = 1\n" + kFamily), HasSubstr("line 1: unknown key 'x' in the catalog"));
  EXPECT_THAT(error_of(kFamily + "router = { scores = 1 }\n" + kModel),
              HasSubstr("line 4: unknown key 'scores' in [family.f] router"));
  EXPECT_THAT(error_of(kFamily + "ffn = { beta2 = 1 }\n" + kModel),
              HasSubstr("unknown key 'beta2' in [family.f] ffn"));
}

TEST(CatalogParse, MissingKeysAreNamed) {
  for (const std::string key :
       {"id", "family", "repo", "layers", "hidden", "expert_ffn", "experts_per_token"}) {
    std::string model = kModel;
    const std::size_t at = model.find("\n" + key + " =");
    model.erase(at, model.find('\n', at + 1) - at);
    EXPECT_THAT(error_of(kFamily + model), HasSubstr("key '" + key + "' missing in [[model]]"));
  }
  EXPECT_THAT(error_of("[family.f]\nlayout = \"dense\"\n"),
              HasSubstr("key 'architecture' missing in [family.f]"));
}

TEST(CatalogParse, WrongTypesAndRangesAreRefused) {
  const std::pair<std::string, std::string> changes[] = {
      {"layers = 4", "layers = 4.0"},
      {"layers = 4", "layers = \"4\""},
      {"layers = 4", "layers = 0"},
      {"layers = 4", "layers = 5000"},
      {"hidden = 8", "hidden = -8"},
      {"hidden = 8", "hidden = 4294967304"},
      {"num_experts = 12", "num_experts = 0"},
      {"id = \"m\"", "id = \"\""},
      {"id = \"m\"", "id = \"a\\tb\""},
      {"id = \"m\"", "id = 7"},
      {"repo = \"o/n\"", "repo = []"},
      {"experts_per_token = 3", "experts_per_token = 13"},
  };
  for (const auto& [from, to] : changes) {
    std::string model = kModel;
    model.replace(model.find(from), from.size(), to);
    const std::string key = to.substr(0, to.find(' '));
    EXPECT_THAT(error_of(kFamily + model), HasSubstr("key '" + key + "' in [[model]]: ")) << to;
  }
  EXPECT_THAT(error_of("model = 3"), HasSubstr("want [[model]] tables"));
  EXPECT_THAT(error_of("model = [3]"), HasSubstr("want [[model]] tables"));
  EXPECT_THAT(error_of("family = 3"), HasSubstr("want a table"));
  EXPECT_THAT(error_of("family = { f = 3 }"), HasSubstr("is no table"));
}

TEST(CatalogParse, ValuesThatDoNotFitEachOtherAreRefused) {
  const std::pair<std::string, std::string> lines[] = {
      {"dense_first = 5", "dense_first"},        {"dense_first = 4", "layers"},
      {"hash_layers = 5", "hash_layers"},        {"pattern = \"EEE\"", "pattern"},
      {"pattern = \"MMMM\"", "layers"},          {"shared_ffn = 4", "shared_experts"},
      {"shared_experts = 65", "shared_experts"}, {"expert_width = 0", "expert_width"},
  };
  for (const auto& [line, key] : lines) {
    EXPECT_THAT(error_of(with(line)), HasSubstr("key '" + key + "' in [[model]]: ")) << line;
  }
  const std::pair<std::string, std::string> routers[] = {
      {"n_group = 0", "n_group"},
      {"n_group = 5", "num_experts"},
      {"n_group = 4, topk_group = 5", "topk_group"},
      {"topk_group = 0", "topk_group"},
      {"scoring = \"sigmoid\", order = \"topk_then_softmax\"", "order"},
      {"scale = -1", "scale"},
      {"scale = nan", "scale"},
      {"scale = inf", "scale"},
      {"scoring = \"relu\"", "scoring"},
      {"normalize = 1", "normalize"},
  };
  for (const auto& [router, key] : routers) {
    EXPECT_THAT(error_of(kFamily + "router = { " + router + " }\n" + kModel),
                HasSubstr("key '" + key + "' in ["))
        << router;
  }
  EXPECT_THAT(error_of(kFamily + "ffn = { activation = \"silu_clamped\" }\n" + kModel),
              HasSubstr("needs a limit"));
}

TEST(CatalogParse, ANewModelOfAnOldIdIsRefused) {
  EXPECT_THAT(error_of(kFamily + kModel + kModel), HasSubstr("line 13: a second model 'm'"));
}

TEST(CatalogParse, AnUnknownFamilyIsNamed) {
  EXPECT_THAT(error_of(kModel), HasSubstr("no [family.f]"));
}

TEST(CatalogParse, AModelWithoutExpertsNeedsADenseFamily) {
  EXPECT_THAT(error_of(kFamily + "[[model]]\nid = \"d\"\nfamily = \"f\"\nrepo = \"o/n\"\n"),
              HasSubstr("needs num_experts"));
}

TEST(CatalogParse, TooMuchTextAndTooManyModelsAreRefused) {
  EXPECT_THAT(error_of(std::string(Catalog::kTextBytesMax + 1, '#')), HasSubstr("at most 1048576"));
  std::string many = "[family.d]\narchitecture = \"D\"\nlayout = \"dense\"\n";
  for (std::size_t i = 0; i <= Catalog::kModelsMax; ++i) {
    many += "[[model]]\nid = \"" + std::to_string(i) + "\"\nfamily = \"d\"\nrepo = \"o/n\"\n";
  }
  EXPECT_THAT(error_of(many), HasSubstr("more than 4096 models"));
}

TEST(CatalogParse, DefaultsAreThoseOfTheGateSpec) {
  const Result<Catalog> parsed = Catalog::parse(kFamily + kModel);
  ASSERT_TRUE(parsed) << parsed.error().message();
  const Model& model = *parsed->find("m");
  EXPECT_EQ(model.router.scoring, wire::Scoring::softmax);
  EXPECT_EQ(model.router.epsilon, 0);
  EXPECT_TRUE(model.router.normalize);
  EXPECT_EQ(model.router.scale, 1);
  EXPECT_EQ(model.router.top_k, 3U);
  EXPECT_EQ(model.expert_width, 8U);
  EXPECT_EQ(model.shared_ffn, 0U);
  EXPECT_EQ(model.moe->params_per_expert_x10, std::nullopt);
  EXPECT_FALSE(model.has_latent());
}

TEST(CatalogParse, GroupsDefaultToAllOfThem) {
  const Result<Catalog> parsed =
      Catalog::parse(kFamily + "router = { scoring = \"sigmoid\", n_group = 4 }\n" + kModel);
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(parsed->find("m")->router.topk_group, 4U);
  EXPECT_EQ(parsed->find("m")->router.epsilon, 1e-20);
}

TEST(CatalogParse, AnEmptyCatalogIsLegal) {
  const Result<Catalog> parsed = Catalog::parse("");
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->models().empty());
}

}  // namespace
}  // namespace tenzro::catalog
