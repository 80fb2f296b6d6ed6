#pragma once
/// \file
/// Jobs over checkpoint files: find tensors in an index or a header, and build a blob from the
/// bytes of some of them. The bodies are those of prepare/build_blob.hpp.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/compute/weights.hpp"
#include "tenzro/tensor/checkpoint_format.hpp"
#include "tenzro/tensor/dtype.hpp"
#include "tenzro/tensor/ggml_type.hpp"
#include "tenzro/tensor/gguf.hpp"
#include "tenzro/wire/gate_blob.hpp"
#include "tenzro/work/shard_index.hpp"

namespace tenzro::work {

/// A tensor of a checkpoint file: safetensors or GGUF.
struct SourceTensor {
  std::variant<tensor::DType, tensor::GgmlType> type = tensor::DType::f32;
  std::vector<std::uint64_t> shape;  ///< outermost first
  /// Byte range in the file.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
};

/// Which file of a sharded checkpoint holds each tensor whose name starts with one of `prefixes`.
struct ScanIndex {
  BufferRef json;  ///< model.safetensors.index.json
  std::vector<std::string> prefixes;
};

struct ScannedIndex {
  std::shared_ptr<const ShardIndex> shards;  ///< sealed
};

/// The tensors of a safetensors header whose names start with one of `prefixes`.
struct ScanHeader {
  BufferRef json;  ///< without the eight length bytes
  std::uint64_t file_bytes = 0;
  std::vector<std::string> prefixes;
};

struct ScannedHeader {
  std::map<std::string, SourceTensor, std::less<>> tensors;
};

/// The header of a GGUF file, from as much of its beginning as was read.
struct ScanGguf {
  BufferRef prefix;
  std::uint64_t file_bytes = 0;
};

struct ScannedGguf {
  /// Not 0: the header goes on; read so many bytes and scan again.
  std::uint64_t bytes_wanted = 0;
  std::map<std::string, tensor::GgufValue, std::less<>> metadata;
  /// All: those of no layer are counted.
  std::map<std::string, SourceTensor, std::less<>> tensors;
};

/// A matrix inside the bytes that were read of a checkpoint: which of its rows, and how they are
/// stored. A vector is a matrix of one row.
struct SourceMatrix {
  std::string tensor;  ///< checkpoint name, for messages
  /// Plain elements; packed values with scales; GGUF blocks.
  std::variant<tensor::DType, tensor::CheckpointFormat, tensor::GgmlType> storage =
      tensor::DType::bf16;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  /// The bytes hold `stored_rows` rows; this matrix is rows first_row, first_row + row_step, ...
  std::uint32_t stored_rows = 0;
  std::uint32_t first_row = 0;
  std::uint32_t row_step = 1;
  /// The bytes are the transposed matrix, [cols, stored_rows]. Plain elements only.
  bool transposed = false;
  /// Which of the job's parts hold the bytes.
  std::size_t values = 0;
  std::size_t scales = 0;  ///< packed values only
  tensor::DType scale_dtype = tensor::DType::f32;
};

/// How much each column of a matrix counts, as an imatrix file has it: sums of squared inputs over
/// so many tokens. Of no tokens: all columns alike.
struct SourceImportance {
  SourceMatrix sums;   ///< one row
  SourceMatrix count;  ///< one value
};

/// Build one expert blob: decode, quantise, write.
struct BuildExpertBlob {
  std::string label;  ///< "layer 3 expert 5", for messages
  compute::FfnSpec spec;
  std::optional<SourceMatrix> gate;
  SourceMatrix up;
  SourceMatrix down;
  std::optional<SourceMatrix> gate_bias;
  std::optional<SourceMatrix> up_bias;
  std::optional<SourceMatrix> down_bias;
  std::optional<tensor::WeightType> gate_quant;
  std::optional<tensor::WeightType> up_quant;
  std::optional<tensor::WeightType> down_quant;
  /// Refuse a projection whose rows do not divide by the block instead of falling back to Q8_0.
  bool strict = false;
  /// Packed sources that are not quantised become F32 instead of BF16.
  bool dense_f32 = false;
  /// Of the columns of gate and up, and of down; heeded by Q4_K and Q6_K.
  std::optional<SourceImportance> importance_in;
  std::optional<SourceImportance> importance_down;
  std::vector<BufferRef> parts;
};

struct BuiltExpertBlob {
  BufferRef blob;
  std::optional<tensor::WeightType> gate_type;
  tensor::WeightType up_type = tensor::WeightType::f32;
  tensor::WeightType down_type = tensor::WeightType::f32;
};

/// Build a gate blob. Vectors have one row; the table is I64 or I32.
struct BuildGateBlob {
  std::string label;  ///< "layer 3", for messages
  wire::RouterSpec spec;
  SourceMatrix weight;
  std::optional<SourceMatrix> bias;
  std::optional<SourceMatrix> per_expert_scale;
  std::optional<SourceMatrix> input_scale;
  float input_scale_factor = 1;  ///< multiplied into every input scale
  std::optional<SourceMatrix> table;
  std::optional<SourceMatrix> shared_gate;
  std::optional<SourceMatrix> latent_down;
  std::optional<SourceMatrix> latent_norm;
  std::optional<SourceMatrix> latent_up;
  std::vector<BufferRef> parts;
};

struct BuiltGateBlob {
  BufferRef blob;
};

}  // namespace tenzro::work
