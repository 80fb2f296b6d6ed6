// Prepare jobs over small checkpoints that are whole, odd or spoiled in one way.
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "support/checkpoint_folder.hpp"
#include "unit/prepare/job_runs.hpp"

namespace tenzro::testing {
namespace {

using Shape = CheckpointFolder::Shape;
using Tensors = CheckpointFolder::Tensors;

const std::string kMlp = "model.layers.0.mlp.";

rpc::PrepareExpertsCall call_for(const CheckpointFolder& folder) {
  return {.model = "toy", .layer = 0, .source = folder.path()};
}

rpc::QuantPlan plan_of(tensor::WeightType type) {
  return {type, type, type, "\"" + std::string(name_of(type)) + "\""};
}

std::string error_of(const CheckpointFolder& folder,
                     const std::function<void(rpc::PrepareExpertsCall&)>& change = {}) {
  NodeWorld world;
  rpc::PrepareExpertsCall call = call_for(folder);
  if (change) change(call);
  const auto status = run(world, call);
  EXPECT_EQ(status.state, rpc::PrepareState::failed);
  return status.error.value_or("");
}

TEST(PrepareJobs, PublishesEveryExpertAndTheGateOfASingleFileCheckpoint) {
  const CheckpointFolder folder(Shape{});
  NodeWorld world;
  const auto status = run(world, call_for(folder));
  EXPECT_EQ(status.state, rpc::PrepareState::completed) << status.error.value_or("");
  EXPECT_EQ(status.experts.size(), 3U);
  ASSERT_TRUE(status.gate.has_value());
  EXPECT_EQ(world.blobs().size(), 4U);
  EXPECT_EQ(status.experts[0].quant, std::nullopt);
}

TEST(PrepareJobs, TakesAFilePathAndAFileUriAlike) {
  const CheckpointFolder folder(Shape{});
  std::vector<std::string> uris;
  for (const std::string& source :
       {folder.path(), "file://" + folder.path(), folder.path() + "/model.safetensors"}) {
    NodeWorld world;
    rpc::PrepareExpertsCall call = call_for(folder);
    call.source = source;
    call.experts = std::vector<ExpertIndex>{2, 0, 2};
    call.include_gate = false;
    const auto status = run(world, call);
    ASSERT_EQ(status.state, rpc::PrepareState::completed) << status.error.value_or("");
    ASSERT_EQ(status.experts.size(), 2U);
    EXPECT_FALSE(status.gate.has_value());
    uris.push_back(status.experts[1].uri);
  }
  EXPECT_EQ(uris[0], uris[1]);
  EXPECT_EQ(uris[0], uris[2]);
}

TEST(PrepareJobs, RowsThatDoNotDivideBecomeQ8AndTheStatusSaysSo) {
  const CheckpointFolder folder(Shape{.hidden = 256, .ffn = 64});
  NodeWorld world;
  rpc::PrepareExpertsCall call = call_for(folder);
  call.quant = plan_of(tensor::WeightType::q4_k);
  const auto status = run(world, call);
  ASSERT_EQ(status.state, rpc::PrepareState::completed) << status.error.value_or("");
  EXPECT_EQ(status.experts[0].up_type, tensor::WeightType::q4_k);
  EXPECT_EQ(status.experts[0].down_type, tensor::WeightType::q8_0);
  EXPECT_EQ(status.experts[0].quant, tensor::WeightType::q4_k);
  call.strict = true;
  const auto refused = run(world, call);
  EXPECT_EQ(refused.state, rpc::PrepareState::failed);
  EXPECT_EQ(
      refused.error,
      "model.safetensors: layer 0 expert 0: tensor '" + kMlp +
          "experts.0.down_proj.weight' has rows of 64, which do not divide by the 256 of q4_k "
          "(strict)");
}

TEST(PrepareJobs, RowsThatDivideByNothingStayDense) {
  const CheckpointFolder folder(Shape{.hidden = 32, .ffn = 20});
  NodeWorld world;
  rpc::PrepareExpertsCall call = call_for(folder);
  call.quant = plan_of(tensor::WeightType::q8_0);
  const auto status = run(world, call);
  ASSERT_EQ(status.state, rpc::PrepareState::completed) << status.error.value_or("");
  EXPECT_EQ(status.experts[0].up_type, tensor::WeightType::q8_0);
  EXPECT_EQ(status.experts[0].down_type, tensor::WeightType::f32);
}

TEST(PrepareJobs, RefusesWhatTheCheckpointDoesNotHaveBeforeTheJobBegins) {
  const CheckpointFolder folder(Shape{});
  EXPECT_EQ(error_of(folder, [](auto& call) { call.layer = 2; }),
            "start: layer: 2 is out of range: the checkpoint has 2 layers");
  EXPECT_EQ(error_of(folder, [](auto& call) { call.layer = 1; }),
            "start: layer: 1 is a dense layer of this checkpoint");
  EXPECT_EQ(error_of(folder,
                     [](auto& call) {
                       call.experts = std::vector<ExpertIndex>{0, 3};
                     }),
            "start: expert 3 out of range: toy has 3 routed experts");
  EXPECT_EQ(error_of(folder, [](auto& call) { call.source = std::nullopt; }),
            "start: unknown catalog model_id: toy");
  EXPECT_EQ(error_of(folder, [](auto& call) { call.source = "ftp://x"; }),
            "start: source: URL 'ftp://x' is not https:// or http://");
  EXPECT_EQ(error_of(folder, [](auto& call) { call.source = "/nowhere/at/all"; }).substr(0, 14),
            "start: source:");
}

TEST(PrepareJobs, CatalogueMismatchNamesBothValues) {
  const CheckpointFolder folder(Shape{});
  const std::string error = error_of(folder, [](auto& call) { call.model = "qwen3-30b-a3b"; });
  EXPECT_NE(error.find("128"), std::string::npos) << error;
  EXPECT_NE(error.find("3"), std::string::npos) << error;
}

struct BadConfig {
  const char* key;
  const char* json;
  const char* error;
};

class PrepareConfig : public ::testing::TestWithParam<BadConfig> {};

TEST_P(PrepareConfig, IsRefusedByItsKey) {
  CheckpointFolder folder(Shape{});
  folder.set_config(GetParam().key, GetParam().json);
  EXPECT_EQ(error_of(folder), std::string("start: ") + GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Keys, PrepareConfig,
    ::testing::Values(
        BadConfig{"hidden_size", "", "config.json: hidden_size is missing"},
        BadConfig{"hidden_size", "0",
                  "config.json: hidden_size must be an integer from 1 to 1048576"},
        BadConfig{"hidden_size", "-1",
                  "config.json: hidden_size must be an integer from 1 to 1048576"},
        BadConfig{"num_experts", "1e9",
                  "config.json: num_experts must be an integer from 1 to 65536"},
        BadConfig{"num_experts_per_tok", "4",
                  "config.json: num_experts_per_tok must be an integer from 1 to 3"},
        BadConfig{"norm_topk_prob", "1", "config.json: norm_topk_prob must be true or false"},
        BadConfig{"hidden_act", "\"gelu\"",
                  "config.json: hidden_act 'gelu' is not known for this family: silu"},
        BadConfig{"mlp_only_layers", "[-1]",
                  "config.json: mlp_only_layers must be a list of layers"},
        BadConfig{"model_type", "\"llama\"",
                  "no MoE tensor-naming scheme for architecture 'llama'"}));

TEST(PrepareJobs, ConfigThatIsNoJsonIsSaidToBeThat) {
  const CheckpointFolder folder(Shape{});
  folder.write("config.json", "<!doctype html>");
  EXPECT_EQ(error_of(folder), "start: config.json: the file is an HTML page");
  folder.write("config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0");
  EXPECT_EQ(error_of(folder),
            "start: config.json: the file is a git LFS pointer, not the data it names");
  folder.write("config.json", "[]");
  EXPECT_EQ(error_of(folder), "start: config.json: is not a JSON object");
}

TEST(PrepareJobs, SpoiledTensorsAreNamedWithTheirFile) {
  const std::string up = kMlp + "experts.1.up_proj.weight";
  const CheckpointFolder missing(Shape{}, [&](Tensors& tensors) { tensors.erase(up); });
  EXPECT_EQ(error_of(missing), "model.safetensors: tensor '" + up + "' is missing");
  const CheckpointFolder reshaped(Shape{}, [&](Tensors& tensors) { tensors[up].shape = {32, 64}; });
  EXPECT_EQ(error_of(reshaped),
            "model.safetensors: tensor '" + up + "' has shape [32, 64], expected [64, 32]");
  const CheckpointFolder retyped(Shape{},
                                 [&](Tensors& tensors) { tensors[up].dtype = tensor::DType::i32; });
  EXPECT_EQ(error_of(retyped), "model.safetensors: tensor '" + up +
                                   "' has unsupported dtype I32 (want F32, F16, or BF16)");
  const CheckpointFolder infinite(Shape{}, [&](Tensors& tensors) {
    const float bad = std::numeric_limits<float>::infinity();
    std::memcpy(tensors[up].bytes.data() + 5UL * 32 * sizeof bad, &bad, sizeof bad);
  });
  const std::string where = "model.safetensors: layer 0 expert 1: ";
  EXPECT_EQ(error_of(infinite), where + "tensor '" + up + "' has a non-finite value in row 5");
  EXPECT_EQ(error_of(infinite, [](auto& call) { call.quant = plan_of(tensor::WeightType::q8_0); }),
            where + "tensor '" + up + "' has a non-finite value in row 5");
}

TEST(PrepareJobs, IndexThatLacksATensorOrNamesAMissingFileIsRefused) {
  const CheckpointFolder folder(Shape{});
  folder.write("model.safetensors.index.json", R"({"weight_map": {}})");
  EXPECT_EQ(error_of(folder),
            "model.safetensors.index.json: tensor '" + kMlp + "gate.weight' is missing");
  folder.write("model.safetensors.index.json",
               R"({"weight_map": {")" + kMlp + R"(gate.weight": "../model.safetensors"}})");
  EXPECT_EQ(error_of(folder),
            "model.safetensors.index.json: the file of tensor '" + kMlp +
                "gate.weight': '../model.safetensors' is not the name of a file of the "
                "checkpoint's folder");
  folder.write("model.safetensors.index.json", R"({"weight_map": 3})");
  EXPECT_EQ(error_of(folder),
            "model.safetensors.index.json: weight_map is missing or not an object");
}

TEST(PrepareJobs, IndexThatNamesAFileOutsideTheFolderIsRefused) {
  const CheckpointFolder folder(Shape{});
  for (const char* file : {"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", ""}) {
    folder.write("model.safetensors.index.json",
                 R"({"weight_map": {")" + kMlp + R"(gate.weight": ")" + file + R"("}})");
    const std::string error = error_of(folder);
    EXPECT_NE(error.find("is not the name of a file of the checkpoint's folder"), std::string::npos)
        << error;
  }
}

TEST(PrepareJobs, AGgufFileIsPreparedWithItsBlocksAsTheyAre) {
  NodeWorld world;
  const rpc::PrepareExpertsCall call{
      .model = "toy",
      .layer = 0,
      .source = std::string(TENZRO_TEST_DATA) + "/gguf/two_experts.gguf"};
  const auto status = run(world, call);
  ASSERT_EQ(status.state, rpc::PrepareState::completed) << status.error.value_or("");
  ASSERT_EQ(status.experts.size(), 2U);
  ASSERT_TRUE(status.gate.has_value());
  EXPECT_EQ(status.experts[1].gate_type, tensor::WeightType::q4_k);
  EXPECT_EQ(status.experts[1].up_type, tensor::WeightType::bf16);
  EXPECT_EQ(status.experts[1].down_type, tensor::WeightType::q6_k);
  rpc::PrepareExpertsCall beyond = call;
  beyond.layer = 1;
  const auto refused = run(world, beyond);
  EXPECT_EQ(refused.error, "start: layer: 1 is out of range: the checkpoint has 1 layers");
}

TEST(PrepareJobs, AnImatrixFileChangesWhatKBlocksHoldAndNothingElse) {
  rpc::PrepareExpertsCall call{.model = "toy",
                               .layer = 0,
                               .source = std::string(TENZRO_TEST_DATA) + "/gguf/two_experts.gguf"};
  call.quant = plan_of(tensor::WeightType::q4_k);
  std::vector<std::string> uris;
  for (const auto& imatrix :
       {std::optional<std::string>(), std::optional<std::string>("imatrix.gguf")}) {
    NodeWorld world;
    call.imatrix = imatrix;
    const auto status = run(world, call);
    ASSERT_EQ(status.state, rpc::PrepareState::completed) << status.error.value_or("");
    EXPECT_EQ(status.experts[0].up_type, tensor::WeightType::q4_k);
    uris.push_back(status.experts[0].uri);
    uris.push_back(status.gate->uri);
  }
  EXPECT_NE(uris[0], uris[2]);
  EXPECT_EQ(uris[1], uris[3]);
  NodeWorld world;
  call.imatrix = "two_experts.gguf";
  EXPECT_EQ(run(world, call).error,
            "two_experts.gguf: tensor 'blk.0.ffn_up_exps.weight.in_sum2' is missing");
}

TEST(PrepareJobs, AFileThatOnlyCallsItselfGgufIsRefusedByName) {
  const CheckpointFolder folder(Shape{});
  folder.write("model.gguf", "<html></html>");
  EXPECT_EQ(error_of(folder, [&](auto& call) { call.source = folder.path() + "/model.gguf"; }),
            "start: model.gguf: GGUF parse error: the file is an HTML page");
}

TEST(PrepareJobs, TruncatedFileIsSaidToBeShort) {
  const CheckpointFolder folder(Shape{});
  folder.write("model.safetensors", "abc");
  const std::string error = error_of(folder);
  EXPECT_TRUE(error.starts_with("model.safetensors: ")) << error;
}

TEST(PrepareJobs, CancelledJobKeepsWhatItPublishedAndStopsReading) {
  const CheckpointFolder folder(Shape{});
  NodeWorld world;
  const RequestId request = world.begin(call_for(folder));
  std::optional<Result<rpc::Answer>> started;
  while (!started && world.work()) started = world.answer(request);
  ASSERT_TRUE(started.has_value());
  const std::string id = std::get<rpc::PrepareStartedAnswer>(**started).job_id;
  const RequestId cancel = world.begin(rpc::PrepareCancelCall{id});
  EXPECT_TRUE(std::get<rpc::PrepareCancelAnswer>(**world.answer(cancel)).cancelled);
  world.settle();
  const auto status =
      expect_answer<rpc::PrepareStatusAnswer>(world.call(rpc::PrepareStatusCall{id}));
  EXPECT_EQ(status.state, rpc::PrepareState::cancelled);
  EXPECT_LT(status.experts.size(), 3U);
  EXPECT_FALSE(
      expect_answer<rpc::PrepareCancelAnswer>(world.call(rpc::PrepareCancelCall{id})).cancelled);
}

TEST(PrepareJobs, BeyondTheLimitAJobIsRefusedAndAfterOneEndsTakenAgain) {
  const CheckpointFolder folder(Shape{});
  NodeWorld::Setup setup;
  setup.options.prepare.jobs_max = 1;
  NodeWorld world(setup);
  const RequestId first = world.begin(call_for(folder));
  const RequestId second = world.begin(call_for(folder));
  const auto refused = world.answer(second);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->error().code, ErrorCode::busy);
  world.settle();
  EXPECT_TRUE(world.answer(first)->has_value());
  EXPECT_EQ(run(world, call_for(folder)).state, rpc::PrepareState::completed);
  EXPECT_EQ(expect_answer<rpc::PrepareListAnswer>(world.call(rpc::PrepareListCall{})).jobs.size(),
            2U);
}

TEST(PrepareJobs, UnknownJobIsAnErrorWithItsId) {
  NodeWorld world;
  const auto status = world.call(rpc::PrepareStatusCall{"no-such-job"});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "unknown prepare job: no-such-job");
}

}  // namespace
}  // namespace tenzro::testing
