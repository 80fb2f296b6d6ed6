// Goal: a GGUF file of every architecture, under llama.cpp's tensor names and metadata keys,
// becomes blobs that give the outputs of the family's reference class. Method: the layers of
// tests/data/router are written as GGUF files the way llama.cpp's converters lay them out (slabs of
// experts, biases and scales beside them), read back as a job does, and forwarded. What the
// converters write for an architecture is in the table here; no file of theirs is.
#include <algorithm>

#include <gtest/gtest.h>

#include "tenzro/prepare/build_blob.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "support/gguf_writer.hpp"
#include "support/tensor_table.hpp"
#include "unit/prepare/prepared_layer.hpp"

namespace tenzro::prepare {
namespace {

using compute::ExpertView;
using compute::MatrixView;
using testing::FamilyCase;
using testing::GgufWriter;
using testing::SourceFile;

const std::string kFolder = std::string(TENZRO_TEST_DATA) + "/router";

struct Written {
  const char* golden;
  const char* architecture;
  LayerIndex layer = 0;
  /// Whether scoring, norm, scale and groups are keys, or known by the architecture's name.
  bool says_rule = false;
  bool is_fused = false;
  const char* ffn_key = "expert_feed_forward_length";
  void (*more)(GgufWriter& file, const std::string& architecture) = nullptr;
};

void PrintTo(const Written& one, std::ostream* out) {
  *out << one.architecture << " of " << one.golden;
}

void write_limits(GgufWriter& file, const std::string& architecture) {
  file.reals(architecture + ".swiglu_clamp_exp", {1.0F, 1.0F})
      .number(architecture + ".hash_layer_count", 1);
}

void write_epsilon(GgufWriter& file, const std::string& architecture) {
  file.real(architecture + ".attention.layer_norm_rms_epsilon", 1e-6F);
}

void write_situ(GgufWriter& file, const std::string& architecture) {
  file.real(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F)
      .real(architecture + ".activation.situ_beta", 4.0F)
      .real(architecture + ".activation.situ_linear_beta", 25.0F)
      .number(architecture + ".expert_latent_length", 32);
}

constexpr Written kCases[] = {
    {"qwen3_moe_norm", "qwen3moe"},
    {"qwen3_5_moe", "qwen35moe"},
    {"qwen3_5_moe", "qwen35moe", 2, false, true},
    {"qwen3_5_moe", "qwen3next", 1},
    {"deepseek_v3_main", "deepseek2", 3, true},
    {"deepseek_v3_nonorm", "deepseek2", 3, true},
    {"kimi_k2", "deepseek2", 1, true},
    {"glm5", "glm-dsa", 3, true},
    {"deepseek_v4_hash", "deepseek4", 0, true, false, "expert_feed_forward_length", write_limits},
    {"deepseek_v4_topk", "deepseek4", 1, true, false, "expert_feed_forward_length", write_limits},
    {"gpt_oss", "gpt-oss"},
    {"gemma4", "gemma4", 0, false, true, "expert_feed_forward_length", write_epsilon},
    {"gemma4", "diffusion-gemma", 0, false, true, "expert_feed_forward_length", write_epsilon},
    {"minimax_m1", "minimax-01", 0, false, false, "feed_forward_length"},
    {"minimax_m3", "minimax-m3", 3, true},
    {"nemotron_h", "nemotron_h_moe", 1, true},
    {"kimi_k3", "kimi-k3", 1, true, false, "expert_feed_forward_length", write_situ},
};

void write_rule(GgufWriter& file, const std::string& start, const wire::RouterSpec& spec) {
  const std::uint32_t functions[] = {1, 2, 4};  // softmax, sigmoid, sqrt(softplus)
  file.number(start + "expert_gating_func", functions[static_cast<std::size_t>(spec.scoring)])
      .flag(start + "expert_weights_norm", spec.normalize)
      .real(start + "expert_weights_scale", static_cast<float>(spec.scale))
      .number(start + "expert_group_count", spec.n_group)
      .number(start + "expert_group_used_count", spec.topk_group);
}

void write_metadata(GgufWriter& file, const Written& how, const FamilyCase& from) {
  const std::string start = std::string(how.architecture) + ".";
  const wire::GateBlob& gate = from.layer.gate;
  file.text("general.architecture", how.architecture)
      .number(start + "block_count", how.layer + 1)
      .number(start + "embedding_length", gate.d_model)
      .number(start + "expert_count", gate.num_experts)
      .number(start + "expert_used_count", from.top_k)
      .number(start + how.ffn_key, from.layer.experts.front().up.rows);
  if (from.layer.experts.size() > gate.num_experts) {
    const std::uint32_t width = from.layer.experts.back().up.rows;
    if (gate.shared_gate) {
      file.number(start + "expert_shared_feed_forward_length", width);
    } else {
      const std::uint32_t count = gate.spec.shared_count;
      file.number(start + "expert_shared_count", count);
      if (width != count * from.layer.experts.front().up.rows)
        file.number(start + "expert_shared_feed_forward_length", width);
    }
  }
  if (how.says_rule) write_rule(file, start, gate.spec);
  if (how.more != nullptr) how.more(file, how.architecture);
}

std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

void write_vector(GgufWriter& file, const std::string& name, const std::vector<float>& values) {
  if (!values.empty()) file.tensor(name, {values.size()}, bytes_of(values));
}

/// Both are numbered as the format.
tensor::GgmlType type_of(const MatrixView& matrix) {
  return static_cast<tensor::GgmlType>(matrix.type);
}

void write_matrix(GgufWriter& file, const std::string& name,
                  const std::optional<MatrixView>& matrix) {
  if (matrix) file.tensor(name, {matrix->rows, matrix->cols}, matrix->bytes, type_of(*matrix));
}

/// One projection of all routed experts. `parts` gives the matrices that lie behind one another.
template <typename Parts>
void write_slab(GgufWriter& file, const std::string& name, const FamilyCase& from,
                const Parts& parts) {
  std::vector<std::byte> slab;
  std::uint64_t rows = 0;
  MatrixView first;
  for (std::uint32_t e = 0; e < from.layer.gate.num_experts; ++e) {
    rows = 0;
    for (const MatrixView& part : parts(from.layer.experts[e])) {
      slab.insert(slab.end(), part.bytes.begin(), part.bytes.end());
      rows += part.rows;
      first = part;
    }
  }
  file.tensor(name, {from.layer.gate.num_experts, rows, first.cols}, slab, type_of(first));
}

void write_biases(GgufWriter& file, const std::string& block, const FamilyCase& from) {
  if (from.layer.experts.front().up_bias.empty()) return;
  const auto write = [&](const char* name, auto member) {
    std::vector<float> all;
    for (const ExpertView& expert : from.layer.experts)
      all.insert(all.end(), (expert.*member).begin(), (expert.*member).end());
    file.tensor(block + name, {from.layer.experts.size(), all.size() / from.layer.experts.size()},
                bytes_of(all));
  };
  write("ffn_gate_exps.bias", &ExpertView::gate_bias);
  write("ffn_up_exps.bias", &ExpertView::up_bias);
  write("ffn_down_exps.bias", &ExpertView::down_bias);
}

void write_experts(GgufWriter& file, const std::string& block, bool is_fused,
                   const FamilyCase& from) {
  using Views = std::vector<MatrixView>;
  const auto gate = [](const ExpertView& expert) { return Views{*expert.gate}; };
  const auto up = [](const ExpertView& expert) { return Views{expert.up}; };
  const auto both = [](const ExpertView& expert) { return Views{*expert.gate, expert.up}; };
  const auto down = [](const ExpertView& expert) { return Views{expert.down}; };
  if (is_fused) {
    write_slab(file, block + "ffn_gate_up_exps.weight", from, both);
  } else {
    if (from.layer.experts.front().gate)
      write_slab(file, block + "ffn_gate_exps.weight", from, gate);
    write_slab(file, block + "ffn_up_exps.weight", from, up);
  }
  write_slab(file, block + "ffn_down_exps.weight", from, down);
  write_biases(file, block, from);
  if (from.layer.experts.size() == from.layer.gate.num_experts) return;
  const ExpertView& shared = from.layer.experts.back();
  write_matrix(file, block + "ffn_gate_shexp.weight", shared.gate);
  write_matrix(file, block + "ffn_up_shexp.weight", shared.up);
  write_matrix(file, block + "ffn_down_shexp.weight", shared.down);
}

void write_gate(GgufWriter& file, const std::string& block, const FamilyCase& from) {
  const wire::GateBlob& gate = from.layer.gate;
  write_matrix(file, block + "ffn_gate_inp.weight", gate.router);
  const bool is_of_logits = gate.spec.bias_on == wire::BiasOn::logits;
  write_vector(file, block + (is_of_logits ? "ffn_gate_inp.bias" : "exp_probs_b.bias"), gate.bias);
  write_vector(file, block + "ffn_down_exps.scale", gate.per_expert_scale);
  if (!gate.input_scale.empty()) {  // as it is, without the width's root that gates fold in
    write_vector(file, block + "ffn_gate_inp.scale",
                 from.layer.tensors->floats("model.language_model.layers.0.router.scale"));
  }
  if (gate.shared_gate)
    file.tensor(block + "ffn_gate_inp_shexp.weight", {gate.d_model}, gate.shared_gate->bytes,
                type_of(*gate.shared_gate));
  write_matrix(file, block + "ffn_routed_down.weight", gate.latent_down);
  write_vector(file, block + "ffn_routed_norm.weight", gate.latent_norm);
  write_matrix(file, block + "ffn_routed_up.weight", gate.latent_up);
  if (!gate.is_hash_routed()) return;
  file.tensor(block + "ffn_gate_tid2eid.weight",
              {gate.tid2eid.size() / gate.tid2eid_top_k, gate.tid2eid_top_k},
              std::as_bytes(std::span(gate.tid2eid)), tensor::GgmlType::i32);
}

std::string block_of(const Written& how) {
  return "blk." + std::to_string(how.layer) + ".";
}

GgufWriter written(const Written& how, const FamilyCase& from) {
  GgufWriter file;
  write_metadata(file, how, from);
  write_gate(file, block_of(how), from);
  write_experts(file, block_of(how), how.is_fused, from);
  return file;
}

Checkpoint checkpoint_of(const SourceFile& file) {
  auto checkpoint = read_gguf_checkpoint(file.metadata());
  if (!checkpoint) testing::stop(checkpoint.error().message());
  return std::move(*checkpoint);
}

const Written& case_of(const std::string& architecture) {
  for (const Written& one : kCases) {
    if (one.architecture == architecture) return one;
  }
  testing::stop("no case of " + architecture);
}

class GgufFamilies : public ::testing::TestWithParam<Written> {};

TEST_P(GgufFamilies, BlobsOfAFileGiveTheReferenceClassesOutput) {
  const FamilyCase golden = testing::load_family_case(GetParam().golden, kFolder);
  const SourceFile file = SourceFile::of_gguf(written(GetParam(), golden).bytes());
  const std::vector<float> output =
      testing::forward_prepared(file, checkpoint_of(file), GetParam().layer, golden);
  EXPECT_LT(testing::relative_error(output, golden.output), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Cases, GgufFamilies, ::testing::ValuesIn(kCases), [](const auto& one) {
  std::string name = std::string(one.param.architecture) + "_" + one.param.golden;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name + (one.param.is_fused ? "_fused" : "");
});

TEST(GgufArchitectures, ALatentProjectionInBlocksIsDecodedForTheGate) {
  const Written& how = case_of("kimi-k3");
  FamilyCase golden = testing::load_family_case(how.golden, kFolder);
  MatrixView& down = *golden.layer.gate.latent_down;
  std::vector<std::byte> blocks;
  std::vector<float> decoded(std::size_t{down.rows} * down.cols);
  for (std::uint32_t row = 0; row < down.rows; ++row) {
    std::vector<float> values(down.cols);
    decode_row(down.type, down.row(row), values);
    std::vector<std::byte> encoded(row_bytes(tensor::WeightType::q8_0, down.cols));
    encode_row(tensor::WeightType::q8_0, values, encoded);
    decode_row(tensor::WeightType::q8_0, encoded,
               std::span(decoded).subspan(std::size_t{row} * down.cols, down.cols));
    blocks.insert(blocks.end(), encoded.begin(), encoded.end());
  }
  down.type = tensor::WeightType::q8_0;
  down.bytes = blocks;
  const SourceFile file = SourceFile::of_gguf(written(how, golden).bytes());
  const auto blob = file.gate(checkpoint_of(file), how.layer);
  ASSERT_TRUE(blob) << blob.error().message();
  const auto gate = wire::parse_gate_blob(blob->blob.bytes());
  ASSERT_TRUE(gate) << gate.error().message();
  EXPECT_EQ(gate->latent_down->type, tensor::WeightType::f32);
  const auto want = bytes_of(decoded);
  EXPECT_TRUE(std::equal(gate->latent_down->bytes.begin(), gate->latent_down->bytes.end(),
                         want.begin(), want.end()));
}

TEST(GgufArchitectures, AMatrixWithAScaleOfItsOwnIsRefusedByName) {
  const Written& how = case_of("qwen3moe");
  const FamilyCase golden = testing::load_family_case(how.golden, kFolder);
  GgufWriter writer = written(how, golden);
  const std::vector<float> scales(golden.layer.gate.num_experts, 0.5F);
  writer.tensor("blk.0.ffn_up_exps.scale", {scales.size()}, bytes_of(scales));
  const SourceFile file = SourceFile::of_gguf(writer.bytes());
  const auto refused = file.expert(checkpoint_of(file), 0, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail,
            "tensor 'blk.0.ffn_up_exps.weight' has a scale of its own ('blk.0.ffn_up_exps.scale'), "
            "which is not supported");
}

struct BadKey {
  const char* golden;
  const char* architecture;
  void (*change)(std::map<std::string, tensor::GgufValue, std::less<>>& metadata);
  const char* error;
};

TEST(GgufArchitectures, WhatAnArchitectureNeedsToBeToldIsRefusedByItsKeyWhereItIsNot) {
  const BadKey cases[] = {
      {"deepseek_v4_topk", "deepseek4",
       [](auto& keys) { keys.erase("deepseek4.swiglu_clamp_exp"); },
       "deepseek4.swiglu_clamp_exp: must be given and above 0"},
      {"deepseek_v4_topk", "deepseek4",
       [](auto& keys) {
         keys["deepseek4.swiglu_clamp_exp"] = std::vector<double>{1, 0, 2};
       },
       "deepseek4.swiglu_clamp_exp: differs from layer to layer, which is not supported"},
      {"deepseek_v4_topk", "deepseek4",
       [](auto& keys) { keys["deepseek4.swiglu_clamp_shexp"] = 3.0; },
       "deepseek4.swiglu_clamp_shexp: differs from swiglu_clamp_exp, which is not supported"},
      {"kimi_k3", "kimi-k3", [](auto& keys) { keys.erase("kimi-k3.activation.situ_beta"); },
       "kimi-k3.activation.situ_beta: must be given and above 0"},
      {"kimi_k3", "kimi-k3", [](auto& keys) { keys.erase("kimi-k3.expert_latent_length"); },
       "kimi-k3.expert_latent_length: is missing"},
  };
  for (const BadKey& one : cases) {
    const FamilyCase golden = testing::load_family_case(one.golden, kFolder);
    const SourceFile file = SourceFile::of_gguf(written(case_of(one.architecture), golden).bytes());
    auto metadata = file.metadata();
    one.change(metadata);
    const auto refused = read_gguf_checkpoint(metadata);
    ASSERT_FALSE(refused) << one.error;
    EXPECT_EQ(refused.error().message(), one.error);
  }
}

TEST(GgufArchitectures, AZeroOfALayerWithoutExpertsDoesNotCount) {
  const FamilyCase golden = testing::load_family_case("deepseek_v4_topk", kFolder);
  const SourceFile file = SourceFile::of_gguf(written(case_of("deepseek4"), golden).bytes());
  auto metadata = file.metadata();
  metadata["deepseek4.swiglu_clamp_exp"] = std::vector<double>{0, 10, 10, 0};
  const auto checkpoint = read_gguf_checkpoint(metadata);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->ffn.limit, 10.0F);
}

}  // namespace
}  // namespace tenzro::prepare
