// Goal: jobs over GGUF files do what those over safetensors do: several layers, files in parts, a
// web server, a node that is killed.
// Method: one set of F32 tensors in both formats; nothing is converted, so the experts' blobs are
// the same bytes.
#include <gtest/gtest.h>

#include "support/checkpoint_folder.hpp"
#include "support/gguf_writer.hpp"
#include "unit/prepare/job_runs.hpp"
#include "unit/prepare/served_file.hpp"

namespace tenzro::testing {
namespace {

using rpc::PrepareState;
using Shape = CheckpointFolder::Shape;
using Tensors = CheckpointFolder::Tensors;

constexpr std::uint32_t kExperts = 3;

/// Layer 1: the experts of layer 0 in the opposite order.
void add_layer(Tensors& tensors) {
  const std::string from = "model.layers.0.mlp.";
  const std::string to = "model.layers.1.mlp.";
  tensors[to + "gate.weight"] = tensors.at(from + "gate.weight");
  for (std::uint32_t e = 0; e < kExperts; ++e) {
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      const auto at = [&](std::uint32_t expert) {
        return "experts." + std::to_string(expert) + "." + name + ".weight";
      };
      tensors[to + at(e)] = tensors.at(from + at(kExperts - 1 - e));
    }
  }
}

void add_slab(const Tensors& tensors, std::uint32_t layer, const std::string& name,
              GgufWriter& file) {
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> slab;
  for (std::uint32_t e = 0; e < kExperts; ++e) {
    const auto& one = tensors.at("model.layers." + std::to_string(layer) + ".mlp.experts." +
                                 std::to_string(e) + "." + name + "_proj.weight");
    shape = one.shape;
    slab.insert(slab.end(), one.bytes.begin(), one.bytes.end());
  }
  shape.insert(shape.begin(), kExperts);
  file.tensor("blk." + std::to_string(layer) + ".ffn_" + name + "_exps.weight", shape, slab);
}

void add_layer(const Tensors& tensors, std::uint32_t layer, GgufWriter& file) {
  const auto& router = tensors.at("model.layers." + std::to_string(layer) + ".mlp.gate.weight");
  file.tensor("blk." + std::to_string(layer) + ".ffn_gate_inp.weight", router.shape, router.bytes);
  for (const char* name : {"gate", "up", "down"}) add_slab(tensors, layer, name, file);
}

/// A block that has no experts, and more than nothing.
void add_dense_layer(std::uint32_t layer, GgufWriter& file) {
  const std::vector<std::byte> norm(4);
  file.tensor("blk." + std::to_string(layer) + ".attn_norm.weight", {1}, norm);
}

GgufWriter header(const Shape& shape, std::uint32_t blocks = 2) {
  GgufWriter file;
  file.text("general.architecture", "qwen3moe")
      .number("qwen3moe.block_count", blocks)
      .number("qwen3moe.embedding_length", shape.hidden)
      .number("qwen3moe.expert_count", kExperts)
      .number("qwen3moe.expert_used_count", 2)
      .number("qwen3moe.expert_feed_forward_length", shape.ffn);
  return file;
}

/// Two layers in safetensors, in one GGUF file and in a GGUF file of two parts.
class GgufJobs : public ::testing::Test {
 protected:
  static constexpr const char* kFirstPart = "a model-00001-of-00002.gguf";
  static constexpr const char* kSecondPart = "a model-00002-of-00002.gguf";

  GgufJobs()
      : folder_(shape_, [this](Tensors& tensors) {
          add_layer(tensors);
          tensors_ = tensors;
        }) {
    folder_.set_config("mlp_only_layers", "[]");
    GgufWriter whole = header(shape_);
    GgufWriter first = header(shape_).number("split.count", 2);
    GgufWriter second;
    second.number("split.count", 2).number("split.no", 1);
    for (const std::uint32_t layer : {0U, 1U}) {
      add_layer(tensors_, layer, whole);
      add_layer(tensors_, layer, layer == 0 ? first : second);
    }
    folder_.write("model.gguf", whole.bytes());
    folder_.write(kFirstPart, first.bytes());
    folder_.write(kSecondPart, second.bytes());
  }

  [[nodiscard]] rpc::PrepareExpertsCall call(const std::string& source) const {
    return {.model = "toy", .layer = 0, .source = source, .has_all_layers = true};
  }

  static std::vector<std::string> uris_of(const rpc::PrepareStatusAnswer& status) {
    std::vector<std::string> uris;
    for (const rpc::PreparedBlob& blob : status.experts) uris.push_back(blob.uri);
    return uris;
  }

  [[nodiscard]] rpc::PrepareStatusAnswer local(const std::string& file = "") const {
    NodeWorld world;
    return run(world, call(folder_.path() + file));
  }

  const Shape shape_{.experts = kExperts};
  Tensors tensors_;
  CheckpointFolder folder_;
};

TEST_F(GgufJobs, EveryLayerOfAWholeOrSplitFileGivesTheBlobsOfItsSafetensors) {
  const auto expected = local();
  ASSERT_EQ(expected.state, PrepareState::completed) << expected.error.value_or("");
  ASSERT_EQ(expected.experts.size(), 2 * kExperts);
  for (const std::string& file : {std::string("model.gguf"), std::string(kFirstPart)}) {
    const auto status = local("/" + file);
    ASSERT_EQ(status.state, PrepareState::completed) << status.error.value_or("");
    EXPECT_EQ(uris_of(status), uris_of(expected)) << file;
    EXPECT_EQ(status.layers, (std::vector<LayerIndex>{0, 1}));
    EXPECT_EQ(status.gates.size(), 2U);
  }
}

TEST_F(GgufJobs, AWebServerGivesTheSame) {
  const auto expected = local("/model.gguf");
  NodeWorld world;
  std::vector<std::string> files;
  world.web = [&](const work::Download& download) -> work::Downloaded {
    const std::string file = download.url.substr(download.url.rfind('/') + 1);
    files.push_back(file);
    const bool is_first = file == "a%20model-00001-of-00002.gguf";
    if (!is_first && file != "a%20model-00002-of-00002.gguf") return {.status = 404};
    return serve_file(folder_.path() + "/" + (is_first ? kFirstPart : kSecondPart), download);
  };
  const auto status = run(world, call("https://hub.example/m/a%20model-00001-of-00002.gguf"));
  ASSERT_EQ(status.state, PrepareState::completed) << status.error.value_or("");
  EXPECT_EQ(uris_of(status), uris_of(expected));
  EXPECT_EQ(files.front(), "a%20model-00001-of-00002.gguf");
}

TEST_F(GgufJobs, AKilledNodeGoesOnWithTheRest) {
  NodeWorld world;
  const std::string id = begin(world, call(folder_.path() + "/" + kFirstPart));
  while (status_of(world, id).experts.size() < kExperts + 1 && world.work()) {
  }
  world.restart();
  EXPECT_GE(status_of(world, id).experts.size(), kExperts + 1);
  world.settle();
  const auto done = status_of(world, id);
  EXPECT_EQ(done.state, PrepareState::completed) << done.error.value_or("");
  EXPECT_EQ(uris_of(done), uris_of(local()));
}

TEST_F(GgufJobs, ABlockWithoutARouterIsADenseLayer) {
  const auto expected = local("/model.gguf");
  const auto three = [this](std::uint32_t parts) {
    GgufWriter file = header(shape_, 3);
    if (parts > 1) file.number("split.count", parts);
    return file;
  };
  GgufWriter whole = three(1);
  GgufWriter first = three(2);
  GgufWriter second;
  second.number("split.count", 2).number("split.no", 1);
  for (const std::uint32_t layer : {0U, 1U}) {
    add_layer(tensors_, layer, whole);
    add_layer(tensors_, layer, layer == 0 ? first : second);
  }
  add_dense_layer(2, whole);
  add_dense_layer(2, second);
  folder_.write("hybrid.gguf", whole.bytes());
  folder_.write(kFirstPart, first.bytes());
  folder_.write(kSecondPart, second.bytes());
  for (const std::string& file : {std::string("hybrid.gguf"), std::string(kFirstPart)}) {
    const auto all = local("/" + file);
    ASSERT_EQ(all.state, PrepareState::completed) << all.error.value_or("");
    EXPECT_EQ(all.layers, (std::vector<LayerIndex>{0, 1})) << file;
    EXPECT_EQ(all.total_experts, 2 * kExperts) << file;
    EXPECT_EQ(uris_of(all), uris_of(expected)) << file;
    rpc::PrepareExpertsCall named = call(folder_.path() + "/" + file);
    named.has_all_layers = false;
    named.layer = 2;
    NodeWorld world;
    const std::string id = begin(world, named);
    world.settle();
    const std::string why = "layer: 2 is a dense layer of this checkpoint";
    // A whole file's blocks are known before the answer.
    if (file == "hybrid.gguf") {
      EXPECT_EQ(id, why);
    } else {
      EXPECT_EQ(status_of(world, id).state, PrepareState::failed);
      EXPECT_EQ(status_of(world, id).error, why);
    }
  }
}

TEST_F(GgufJobs, AMissingOrLaterPartIsNamed) {
  NodeWorld world;
  EXPECT_EQ(begin(world, call(folder_.path() + "/" + kSecondPart)),
            std::string(kSecondPart) + ": is a part of a split file and not its first");
  folder_.remove(kSecondPart);
  const auto status = local(std::string("/") + kFirstPart);
  EXPECT_EQ(status.state, PrepareState::failed);
  EXPECT_NE(status.error.value_or("").find(kSecondPart), std::string::npos)
      << status.error.value_or("");
}

TEST_F(GgufJobs, APartSaysWhichItIs) {
  const auto part = [this](const char* key, std::uint32_t value) {
    GgufWriter file;
    for (const std::string name : {"split.count", "split.no"}) {
      if (name != key) file.number(name, name == "split.count" ? 2 : 1);
    }
    if (value < 99) file.number(key, value);
    add_layer(tensors_, 1, file);
    folder_.write(kSecondPart, file.bytes());
    return local(std::string("/") + kFirstPart).error.value_or("");
  };
  const std::string start = std::string(kSecondPart) + ": ";
  EXPECT_EQ(part("split.no", 0), start + "split.no is 0, by its place it is 1");
  EXPECT_EQ(part("split.no", 2), start + "split.no is 2, by its place it is 1");
  EXPECT_EQ(part("split.no", 99), start + "split.no is missing");
  EXPECT_EQ(part("split.count", 3), start + "split.count is 3, by its place it is 2");
  EXPECT_EQ(part("split.count", 99), start + "split.count is missing");
  EXPECT_EQ(part("split.no", 1), "");
}

TEST_F(GgufJobs, TheFirstPartsNameSaysHowManyThereAre) {
  GgufWriter first = header(shape_).number("split.count", 3);
  add_layer(tensors_, 0, first);
  folder_.write(kFirstPart, first.bytes());
  NodeWorld world;
  EXPECT_EQ(
      begin(world, call(folder_.path() + "/" + kFirstPart)),
      std::string(kFirstPart) + ": split.count is 3, and its name says another number of files");
}

TEST_F(GgufJobs, ATensorOfTwoPartsIsRefused) {
  GgufWriter second;
  second.number("split.count", 2).number("split.no", 1);
  for (const std::uint32_t layer : {0U, 1U}) add_layer(tensors_, layer, second);
  folder_.write(kSecondPart, second.bytes());
  EXPECT_EQ(local(std::string("/") + kFirstPart).error.value_or(""),
            std::string(kSecondPart) + ": tensor 'blk.0.ffn_down_exps.weight' is in '" +
                kFirstPart + "' too");
}

TEST_F(GgufJobs, PartsHoldAsManyTensorsAsTheirFirstSays) {
  for (const std::uint32_t count : {7U, 8U, 9U}) {
    GgufWriter first = header(shape_).number("split.count", 2).number("split.tensors.count", count);
    add_layer(tensors_, 0, first);
    folder_.write(kFirstPart, first.bytes());
    const std::string why = std::string(kFirstPart) + ": split.tensors.count is " +
                            std::to_string(count) + ", and its 2 files hold 8";
    EXPECT_EQ(local(std::string("/") + kFirstPart).error.value_or(""), count == 8 ? "" : why);
  }
}

TEST_F(GgufJobs, ALayerThatNoFileHasIsNamed) {
  GgufWriter whole = header(shape_);
  add_layer(tensors_, 0, whole);
  folder_.write("model.gguf", whole.bytes());
  NodeWorld world;
  const std::string why = "layer 1 of its qwen3moe.block_count 2 is missing";
  EXPECT_EQ(begin(world, call(folder_.path() + "/model.gguf")), "model.gguf: " + why);
  GgufWriter empty;
  empty.number("split.count", 2).number("split.no", 1);
  folder_.write(kSecondPart, empty.bytes());
  const auto status = local(std::string("/") + kFirstPart);
  EXPECT_EQ(status.state, PrepareState::failed);
  EXPECT_EQ(status.error.value_or(""), std::string(kFirstPart) + ": " + why);
}

TEST_F(GgufJobs, ALeadingDenseLayerMayBeMissing) {
  GgufWriter whole = header(shape_).number("qwen3moe.leading_dense_block_count", 1);
  add_layer(tensors_, 1, whole);
  folder_.write("model.gguf", whole.bytes());
  const auto status = local("/model.gguf");
  EXPECT_EQ(status.state, PrepareState::completed) << status.error.value_or("");
  EXPECT_EQ(status.layers, (std::vector<LayerIndex>{1}));
}

TEST_F(GgufJobs, ExpertsWithoutARouterAreNoDenseLayer) {
  GgufWriter whole = header(shape_);
  add_layer(tensors_, 0, whole);
  add_slab(tensors_, 1, "down", whole);
  folder_.write("model.gguf", whole.bytes());
  NodeWorld world;
  EXPECT_EQ(begin(world, call(folder_.path() + "/model.gguf")),
            "model.gguf: layer 1 has experts ('blk.1.ffn_down_exps.weight') and no "
            "'blk.1.ffn_gate_inp.weight'");
}

}  // namespace
}  // namespace tenzro::testing
