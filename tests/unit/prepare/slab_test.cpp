// Goal: reading one expert's byte ranges of a slab gives what slicing the whole slab in memory
// gives, whatever the storage: halves, alternating rows, transposed, FP8 with scale blocks that an
// expert's halves share, ragged edges. Method: random shapes; the twin decodes the whole tensor,
// indexes it elementwise and makes the blob from that.
#include <algorithm>

#include <gtest/gtest.h>

#include "tenzro/base/prng.hpp"
#include "tenzro/tensor/dtype.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "unit/prepare/source_file.hpp"

namespace tenzro::prepare {
namespace {

using tensor::DType;
using tensor::WeightType;
using testing::checkpoint_of;
using testing::FileTensor;
using testing::FileTensors;
using testing::SourceFile;

struct Shape {
  std::uint32_t experts;
  std::uint32_t width;
  std::uint32_t ffn;
};

Shape random_shape(Prng& prng) {
  const auto between = [&](std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(low + prng.below(high - low + 1));
  };
  return {between(1, 5), between(1, 150), between(1, 150)};
}

FileTensor random_bf16(Prng& prng, std::vector<std::uint64_t> shape) {
  FileTensor made{DType::bf16, std::move(shape), {}};
  std::size_t count = 1;
  for (const std::uint64_t dimension : made.shape) count *= dimension;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(prng.below(2001)) / 1000.0F - 1.0F;
    const std::uint16_t bits = tensor::f32_to_bf16(value);
    made.bytes.push_back(static_cast<std::byte>(bits & 0xFFU));
    made.bytes.push_back(static_cast<std::byte>(bits >> 8U));
  }
  return made;
}

std::vector<float> floats_of(const FileTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / tensor::bytes_of(tensor.dtype));
  convert_to_f32(tensor.dtype, tensor.bytes, values);
  return values;
}

/// A matrix given element by element, as a blob of bf16 holds it.
template <typename At>
std::vector<std::byte> bf16_matrix(std::uint32_t rows, std::uint32_t cols, const At& at) {
  std::vector<float> values;
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t c = 0; c < cols; ++c) values.push_back(at(r, c));
  }
  std::vector<std::byte> bytes(values.size() * 2);
  tensor::encode_row(WeightType::bf16, values, bytes);
  return bytes;
}

compute::MatrixView view_of(const std::vector<std::byte>& bytes, std::uint32_t rows,
                            std::uint32_t cols) {
  return {.type = WeightType::bf16, .rows = rows, .cols = cols, .bytes = bytes};
}

/// The blob whose gate, up and down elements are those of `gate_up` (row 0..2F-1) and `down`.
template <typename GateUp, typename Down>
std::vector<std::byte> twin(const Shape& shape, bool alternates, const compute::FfnSpec& spec,
                            const GateUp& gate_up, const Down& down,
                            const std::vector<float>& gate_up_bias,
                            const std::vector<float>& down_bias) {
  const auto row = [&](bool is_up, std::uint32_t r) {
    return alternates ? 2 * r + (is_up ? 1 : 0) : r + (is_up ? shape.ffn : 0);
  };
  const auto gate = bf16_matrix(shape.ffn, shape.width,
                                [&](auto r, auto c) { return gate_up(row(false, r), c); });
  const auto up =
      bf16_matrix(shape.ffn, shape.width, [&](auto r, auto c) { return gate_up(row(true, r), c); });
  const auto out = bf16_matrix(shape.width, shape.ffn, down);
  std::vector<float> biases[2];
  for (std::uint32_t r = 0; r < shape.ffn && !gate_up_bias.empty(); ++r) {
    biases[0].push_back(gate_up_bias[row(false, r)]);
    biases[1].push_back(gate_up_bias[row(true, r)]);
  }
  compute::ExpertView view;
  view.spec = spec;
  view.gate = view_of(gate, shape.ffn, shape.width);
  view.up = view_of(up, shape.ffn, shape.width);
  view.down = view_of(out, shape.width, shape.ffn);
  view.gate_bias = biases[0];
  view.up_bias = biases[1];
  view.down_bias = down_bias;
  return wire::make_expert_blob(view);
}

void expect_blob(const Result<work::BuiltExpertBlob>& built,
                 const std::vector<std::byte>& expected) {
  ASSERT_TRUE(built) << built.error().message();
  const auto bytes = built->blob.bytes();
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()));
}

Checkpoint qwen_checkpoint(const Shape& shape) {
  return checkpoint_of(R"({"model_type":"qwen3_5_moe","num_hidden_layers":1,"hidden_size":)" +
                       std::to_string(shape.width) + R"(,"moe_intermediate_size":)" +
                       std::to_string(shape.ffn) + R"(,"num_experts":)" +
                       std::to_string(shape.experts) + R"(,"num_experts_per_tok":1})");
}

Checkpoint gpt_oss_checkpoint(const Shape& shape) {
  return checkpoint_of(R"({"model_type":"gpt_oss","num_hidden_layers":1,"hidden_size":)" +
                       std::to_string(shape.width) + R"(,"intermediate_size":)" +
                       std::to_string(shape.ffn) + R"(,"num_local_experts":)" +
                       std::to_string(shape.experts) + R"(,"num_experts_per_tok":1})");
}

TEST(Slabs, OneExpertsRangeIsTheSliceOfTheWholeSlab) {
  Prng prng(31);
  for (int round = 0; round < 40; ++round) {
    const Shape shape = random_shape(prng);
    const std::string mlp = "model.language_model.layers.0.mlp.experts.";
    FileTensors tensors;
    tensors[mlp + "gate_up_proj"] =
        random_bf16(prng, {shape.experts, 2ULL * shape.ffn, shape.width});
    tensors[mlp + "down_proj"] = random_bf16(prng, {shape.experts, shape.width, shape.ffn});
    const SourceFile file(tensors);
    const std::vector<float> gate_up = floats_of(tensors[mlp + "gate_up_proj"]);
    const std::vector<float> down = floats_of(tensors[mlp + "down_proj"]);
    const Checkpoint checkpoint = qwen_checkpoint(shape);
    for (std::uint32_t e = 0; e < shape.experts; ++e) {
      const auto plan = plan_expert(checkpoint, 0, e, file.finder());
      ASSERT_TRUE(plan) << plan.error().message();
      EXPECT_EQ(plan->reads.size(), 2U);  // one contiguous range a slab
      const auto expected = twin(
          shape, false, {},
          [&](auto r, auto c) {
            return gate_up[(std::size_t{e} * 2 * shape.ffn + r) * shape.width + c];
          },
          [&](auto r, auto c) { return down[(std::size_t{e} * shape.width + r) * shape.ffn + c]; },
          {}, {});
      expect_blob(file.expert(checkpoint, 0, e), expected);
    }
  }
}

TEST(Slabs, AlternatingTransposedSlabsGiveTheirExpertsRowsAndBiases) {
  Prng prng(32);
  for (int round = 0; round < 40; ++round) {
    const Shape shape = random_shape(prng);
    const std::string mlp = "model.layers.0.mlp.experts.";
    FileTensors tensors;
    tensors[mlp + "gate_up_proj"] =
        random_bf16(prng, {shape.experts, shape.width, 2ULL * shape.ffn});
    tensors[mlp + "gate_up_proj_bias"] = random_bf16(prng, {shape.experts, 2ULL * shape.ffn});
    tensors[mlp + "down_proj"] = random_bf16(prng, {shape.experts, shape.ffn, shape.width});
    tensors[mlp + "down_proj_bias"] = random_bf16(prng, {shape.experts, shape.width});
    const SourceFile file(tensors);
    const std::vector<float> gate_up = floats_of(tensors[mlp + "gate_up_proj"]);
    const std::vector<float> down = floats_of(tensors[mlp + "down_proj"]);
    const std::vector<float> gate_up_bias = floats_of(tensors[mlp + "gate_up_proj_bias"]);
    const std::vector<float> down_bias = floats_of(tensors[mlp + "down_proj_bias"]);
    const Checkpoint checkpoint = gpt_oss_checkpoint(shape);
    for (std::uint32_t e = 0; e < shape.experts; ++e) {
      const std::size_t twice = 2 * std::size_t{shape.ffn};
      const auto expected = twin(
          shape, true, checkpoint.ffn,
          [&](auto r, auto c) { return gate_up[(std::size_t{e} * shape.width + c) * twice + r]; },
          [&](auto r, auto c) { return down[(std::size_t{e} * shape.ffn + c) * shape.width + r]; },
          {gate_up_bias.begin() + static_cast<std::ptrdiff_t>(e * twice),
           gate_up_bias.begin() + static_cast<std::ptrdiff_t>((e + 1) * twice)},
          {down_bias.begin() + static_cast<std::ptrdiff_t>(e * shape.width),
           down_bias.begin() + static_cast<std::ptrdiff_t>((e + 1) * shape.width)});
      expect_blob(file.expert(checkpoint, 0, e), expected);
    }
  }
}

FileTensor random_codes(Prng& prng, std::vector<std::uint64_t> shape) {
  FileTensor made{DType::f8_e4m3, std::move(shape), {}};
  std::size_t count = 1;
  for (const std::uint64_t dimension : made.shape) count *= dimension;
  for (std::size_t i = 0; i < count; ++i) {
    auto code = static_cast<std::uint8_t>(prng.below(256));
    if ((code & 0x7FU) == 0x7FU) code = 0;  // NaN
    made.bytes.push_back(static_cast<std::byte>(code));
  }
  return made;
}

TEST(Slabs, Fp8HalvesThatShareScaleBlocksAndRaggedEdgesAreDecodedAsTheWhole) {
  Prng prng(33);
  for (int round = 0; round < 30; ++round) {
    const Shape shape = random_shape(prng);
    const std::uint64_t twice = 2ULL * shape.ffn;
    const std::uint64_t scale_rows = (twice + 127) / 128;
    const std::uint64_t scale_cols = (shape.width + 127) / 128;
    const std::string mlp = "model.language_model.layers.0.mlp.experts.";
    FileTensors tensors;
    tensors[mlp + "gate_up_proj"] = random_codes(prng, {shape.experts, twice, shape.width});
    tensors[mlp + "gate_up_proj_scale_inv"] =
        random_bf16(prng, {shape.experts, scale_rows, scale_cols});
    tensors[mlp + "down_proj"] = random_bf16(prng, {shape.experts, shape.width, shape.ffn});
    const SourceFile file(tensors);
    const std::vector<float> values = floats_of(tensors[mlp + "gate_up_proj"]);
    const std::vector<float> scales = floats_of(tensors[mlp + "gate_up_proj_scale_inv"]);
    const std::vector<float> down = floats_of(tensors[mlp + "down_proj"]);
    const Checkpoint checkpoint = qwen_checkpoint(shape);
    for (std::uint32_t e = 0; e < shape.experts; ++e) {
      const auto expected = twin(
          shape, false, {},
          [&](auto r, auto c) {
            const float scale = scales[(e * scale_rows + r / 128) * scale_cols + c / 128];
            return values[(e * twice + r) * shape.width + c] * scale;
          },
          [&](auto r, auto c) { return down[(std::size_t{e} * shape.width + r) * shape.ffn + c]; },
          {}, {});
      expect_blob(file.expert(checkpoint, 0, e), expected);
    }
  }
}

TEST(Slabs, ASlabOfAnotherNumberOfExpertsIsRefusedNamingBothShapes) {
  Prng prng(34);
  const Shape shape{4, 32, 16};
  const std::string mlp = "model.language_model.layers.0.mlp.experts.";
  FileTensors tensors;
  tensors[mlp + "gate_up_proj"] = random_bf16(prng, {3, 32, 32});
  tensors[mlp + "down_proj"] = random_bf16(prng, {4, 32, 16});
  const auto refused = SourceFile(tensors).expert(qwen_checkpoint(shape), 0, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail,
            "tensor '" + mlp + "gate_up_proj' has shape [3, 32, 32], expected [4, 32, 32]");
}

TEST(Slabs, ACheckpointOfTheFamilyWithAMatrixAnExpertIsReadToo) {
  Prng prng(35);
  const Shape shape{2, 32, 16};
  const std::string expert = "model.language_model.layers.0.mlp.experts.1.";
  FileTensors tensors;
  tensors[expert + "gate_proj.weight"] = random_bf16(prng, {16, 32});
  tensors[expert + "up_proj.weight"] = random_bf16(prng, {16, 32});
  tensors[expert + "down_proj.weight"] = random_bf16(prng, {32, 16});
  const auto built = SourceFile(tensors).expert(qwen_checkpoint(shape), 0, 1);
  ASSERT_TRUE(built) << built.error().message();
  const auto blob = wire::parse_expert_blob(built->blob.bytes());
  ASSERT_TRUE(blob);
  const auto up = blob->view.up.bytes;
  const auto& expected = tensors[expert + "up_proj.weight"].bytes;
  EXPECT_TRUE(std::equal(up.begin(), up.end(), expected.begin(), expected.end()));
}

}  // namespace
}  // namespace tenzro::prepare
