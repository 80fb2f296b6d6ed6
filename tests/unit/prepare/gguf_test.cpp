// Goal: a GGUF file's experts and gate become blobs without loss: block types a node serves keep
// their bytes, others are decoded.
// Method: a file that ggml's own writer made (tests/data/gguf), read prefix by prefix as a job
// does.
#include <algorithm>

#include <gtest/gtest.h>

#include "tenzro/prepare/build_blob.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "support/tensor_table.hpp"
#include "unit/prepare/source_file.hpp"

namespace tenzro::prepare {
namespace {

using tensor::GgufValue;
using tensor::WeightType;

const std::string kFolder = std::string(TENZRO_TEST_DATA) + "/gguf/";

class GgufFile : public ::testing::Test {
 protected:
  GgufFile()
      : bytes_(testing::read_file(kFolder + "two_experts.gguf")),
        expected_({kFolder + "ggml_types.safetensors"}) {}

  void SetUp() override {
    const auto scanned = prepare::scan_gguf({BufferRef::copy_of(bytes_), bytes_.size()});
    ASSERT_TRUE(scanned) << scanned.error().message();
    ASSERT_EQ(scanned->bytes_wanted, 0U);
    scanned_ = *scanned;
    auto checkpoint = read_gguf_checkpoint(scanned_.metadata);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message();
    checkpoint_ = std::move(*checkpoint);
  }

  [[nodiscard]] FindTensor finder() const {
    return [this](const std::string& name) -> const work::SourceTensor* {
      const auto found = scanned_.tensors.find(name);
      return found == scanned_.tensors.end() ? nullptr : &found->second;
    };
  }

  template <typename Plan>
  void fill(Plan& plan) const {
    for (std::size_t i = 0; i < plan.reads.size(); ++i) {
      const Read& read = plan.reads[i];
      plan.job.parts[i] =
          BufferRef::copy_of(std::span(bytes_).subspan(read.begin, read.end - read.begin));
    }
  }

  [[nodiscard]] Result<work::BuiltExpertBlob> expert(
      ExpertIndex index, const std::function<void(work::BuildExpertBlob&)>& change = {}) const {
    auto plan = plan_expert(checkpoint_, 0, index, finder());
    if (!plan) return fail(plan.error());
    fill(*plan);
    if (change) change(plan->job);
    compute::SerialExecutor executor;
    return build_expert_blob(plan->job, executor, tensor::RowEncoder());
  }

  /// Expert `index`'s share of a tensor, from what ggml had in memory when it wrote the file.
  [[nodiscard]] std::vector<std::byte> written(const std::string& name, ExpertIndex index) const {
    const auto all = expected_.bytes("gguf.blk.0." + name + ".weight");
    const auto half = all.subspan(index * all.size() / 2, all.size() / 2);
    return {half.begin(), half.end()};
  }

  std::vector<std::byte> bytes_;
  testing::TensorTable expected_;
  work::ScannedGguf scanned_;
  Checkpoint checkpoint_;
};

bool equal(std::span<const std::byte> a, const std::vector<std::byte>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST_F(GgufFile, TopologyComesFromItsMetadata) {
  EXPECT_EQ(checkpoint_.model_type, "qwen3moe");
  EXPECT_EQ(checkpoint_.num_experts, 2U);
  EXPECT_EQ(checkpoint_.hidden, 256U);
  EXPECT_EQ(checkpoint_.expert_ffn, 256U);
  EXPECT_EQ(checkpoint_.router.top_k, 1U);
  EXPECT_EQ(checkpoint_.router.scoring, wire::Scoring::softmax);
}

TEST_F(GgufFile, ServedBlockTypesKeepTheirBytesAndOthersAreDecoded) {
  for (const ExpertIndex e : {0U, 1U}) {
    const auto built = expert(e);
    ASSERT_TRUE(built) << built.error().message();
    EXPECT_EQ(built->gate_type, WeightType::q4_k);
    EXPECT_EQ(built->up_type, WeightType::bf16);  // Q5_K
    EXPECT_EQ(built->down_type, WeightType::q6_k);
    const auto blob = wire::parse_expert_blob(built->blob.bytes());
    ASSERT_TRUE(blob) << blob.error().message();
    EXPECT_TRUE(equal(blob->view.gate->bytes, written("ffn_gate_exps", e)));
    EXPECT_TRUE(equal(blob->view.down.bytes, written("ffn_down_exps", e)));
    std::vector<float> decoded(std::size_t{256} * 256);
    decode_row(tensor::GgmlType::q5_k, written("ffn_up_exps", e), decoded);
    std::vector<std::byte> rounded(decoded.size() * 2);
    encode_row(WeightType::bf16, decoded, rounded);
    EXPECT_TRUE(equal(blob->view.up.bytes, rounded));
  }
}

TEST_F(GgufFile, AWantedTypeThatATensorHasAlreadyIsNotEncodedAgain) {
  const auto built = expert(1, [](work::BuildExpertBlob& job) {
    job.gate_quant = job.up_quant = WeightType::q4_k;
    job.down_quant = WeightType::q8_0;
  });
  ASSERT_TRUE(built) << built.error().message();
  EXPECT_EQ(built->up_type, WeightType::q4_k);
  EXPECT_EQ(built->down_type, WeightType::q8_0);
  const auto blob = wire::parse_expert_blob(built->blob.bytes());
  ASSERT_TRUE(blob) << blob.error().message();
  EXPECT_TRUE(equal(blob->view.gate->bytes, written("ffn_gate_exps", 1)));
}

TEST_F(GgufFile, TheGateIsPublishedWithItsRule) {
  auto plan = plan_gate(checkpoint_, 0, finder());
  ASSERT_TRUE(plan) << plan.error().message();
  fill(*plan);
  const auto built = build_gate_blob(plan->job);
  ASSERT_TRUE(built) << built.error().message();
  const auto gate = wire::parse_gate_blob(built->blob.bytes());
  ASSERT_TRUE(gate) << gate.error().message();
  const auto router = expected_.bytes("gguf.blk.0.ffn_gate_inp.weight");
  EXPECT_TRUE(std::equal(gate->router.bytes.begin(), gate->router.bytes.end(), router.begin(),
                         router.end()));
  EXPECT_EQ(gate->spec.top_k, 1U);
}

TEST_F(GgufFile, AHeaderIsReadFromAsShortAPrefixAsHoldsIt) {
  std::uint64_t length = 64;
  int scans = 0;
  for (;; ++scans) {
    ASSERT_LT(scans, 10);
    const auto scanned =
        scan_gguf({BufferRef::copy_of(std::span(bytes_).first(length)), bytes_.size()});
    ASSERT_TRUE(scanned) << scanned.error().message();
    if (scanned->bytes_wanted == 0) break;
    ASSERT_GT(scanned->bytes_wanted, length);
    length = scanned->bytes_wanted;
  }
  EXPECT_GT(scans, 0);
}

/// The same metadata under another architecture's name.
std::map<std::string, GgufValue, std::less<>> renamed(
    const std::map<std::string, GgufValue, std::less<>>& from, const std::string& architecture) {
  const std::string old = "qwen3moe.";
  std::map<std::string, GgufValue, std::less<>> to;
  for (const auto& [key, value] : from)
    to[key.starts_with(old) ? architecture + "." + key.substr(old.size()) : key] = value;
  to["general.architecture"] = architecture;
  to.erase(architecture + ".expert_gating_func");
  to.erase(architecture + ".expert_weights_norm");
  return to;
}

TEST_F(GgufFile, ADeepseek2FileThatSaysNothingScoresBySoftmaxWithoutANorm) {
  auto metadata = renamed(scanned_.metadata, "deepseek2");
  const auto silent = read_gguf_checkpoint(metadata);
  ASSERT_TRUE(silent) << silent.error().message();
  EXPECT_EQ(silent->router.scoring, wire::Scoring::softmax);
  EXPECT_FALSE(silent->router.normalize);
  metadata["deepseek2.expert_gating_func"] = std::uint64_t{2};
  metadata["deepseek2.expert_weights_norm"] = true;
  const auto stated = read_gguf_checkpoint(metadata);
  ASSERT_TRUE(stated) << stated.error().message();
  EXPECT_EQ(stated->router.scoring, wire::Scoring::sigmoid);
  EXPECT_TRUE(stated->router.normalize);
  const auto glm = read_gguf_checkpoint(renamed(scanned_.metadata, "glm-dsa"));
  ASSERT_TRUE(glm) << glm.error().message();
  EXPECT_EQ(glm->router.scoring, wire::Scoring::sigmoid);
  EXPECT_FALSE(glm->router.normalize);
}

TEST_F(GgufFile, ADeepseek2FileOfGlmFlashsDepthMustSayHowItScores) {
  auto metadata = renamed(scanned_.metadata, "deepseek2");
  metadata["deepseek2.block_count"] = std::uint64_t{47};
  const auto refused = read_gguf_checkpoint(metadata);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "deepseek2.expert_gating_func: is missing");
  metadata["deepseek2.expert_gating_func"] = std::uint64_t{2};
  EXPECT_TRUE(read_gguf_checkpoint(metadata));
}

struct BadMetadata {
  const char* key;
  GgufValue value;
  const char* error;
};

TEST_F(GgufFile, MetadataThatCannotBeIsRefusedByItsKey) {
  const BadMetadata cases[] = {
      {"qwen3moe.expert_count", std::uint64_t{0},
       "qwen3moe.expert_count: must be an integer from 1 to 65536"},
      {"qwen3moe.expert_count", std::string("two"),
       "qwen3moe.expert_count: must be an integer from 1 to 65536"},
      {"qwen3moe.embedding_length", std::uint64_t{1} << 40U,
       "qwen3moe.embedding_length: must be an integer from 1 to 1048576"},
      {"qwen3moe.expert_used_count", std::uint64_t{3},
       "qwen3moe.expert_used_count: must be an integer from 1 to 2"},
      {"qwen3moe.expert_gating_func", std::uint64_t{9},
       "qwen3moe.expert_gating_func: 9 is not known"},
      {"qwen3moe.nextn_predict_layers", std::uint64_t{1},
       "qwen3moe.nextn_predict_layers: leaves no other layer"},
      {"general.architecture", std::string("llama"),
       "no MoE tensor-naming scheme for architecture 'llama'"},
      {"general.architecture", std::monostate(), "general.architecture: is missing"},
  };
  for (const BadMetadata& one : cases) {
    auto metadata = scanned_.metadata;
    metadata[one.key] = one.value;
    const auto refused = read_gguf_checkpoint(metadata);
    ASSERT_FALSE(refused) << one.key;
    EXPECT_EQ(refused.error().message(), one.error);
  }
}

TEST_F(GgufFile, AShapeThatTheMetadataContradictsIsRefusedByName) {
  checkpoint_.num_experts = 3;
  const auto plan = plan_expert(checkpoint_, 0, 0, finder());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().detail,
            "tensor 'blk.0.ffn_gate_exps.weight' has shape [2, 256, 256], expected [3, 256, 256]");
}

TEST_F(GgufFile, ATypeWithoutADecoderIsRefusedByName) {
  scanned_.tensors["blk.0.ffn_up_exps.weight"].type = tensor::GgmlType::iq2_xxs;
  const auto plan = plan_expert(checkpoint_, 0, 0, finder());
  ASSERT_FALSE(plan);
  EXPECT_EQ(
      plan.error().detail,
      "tensor 'blk.0.ffn_up_exps.weight' has unsupported type IQ2_XXS (want F32, F16, Q4_0, Q4_1, "
      "Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, BF16, TQ1_0, TQ2_0, "
      "MXFP4, Q1_0 or Q2_0)");
}

}  // namespace
}  // namespace tenzro::prepare
