#pragma once
/// \file
/// One matrix of a checkpoint as it goes into a blob: kept as it is, decoded, or quantised.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/compute/weights.hpp"
#include "tenzro/tensor/row_encoder.hpp"
#include "tenzro/work/source.hpp"

namespace tenzro::prepare {

struct EncodeOptions {
  std::string label;  ///< layer and expert, an error's `where`
  bool strict = false;
  bool dense_f32 = false;
};

/// What does the work.
struct Encoders {
  compute::Executor& executor;
  const tensor::RowEncoder& rows;
};

/// The bytes live here or in the source.
struct EncodedMatrix {
  compute::MatrixView view;
  BufferRef bytes;
};

/// `wanted` absent: no quantisation. `importance` empty: all columns count alike.
[[nodiscard]] Result<EncodedMatrix> encode_matrix(const work::SourceMatrix& source,
                                                  std::span<const BufferRef> parts,
                                                  std::optional<tensor::WeightType> wanted,
                                                  std::span<const float> importance,
                                                  const EncodeOptions& options,
                                                  const Encoders& encoders);

/// All elements as f32, row after row; an absent matrix gives none. Non-finite ones are refused.
[[nodiscard]] Result<std::vector<float>> decode_values(
    const std::optional<work::SourceMatrix>& source, std::span<const BufferRef> parts,
    const std::string& label);

}  // namespace tenzro::prepare
