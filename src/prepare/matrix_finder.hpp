#pragma once
/// \file
/// MatrixFinder: finds a matrix or vector of a checkpoint, whatever it is stored as, and notes
/// which byte ranges must be read for it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layer_plan.hpp"

namespace tenzro::prepare {

/// The matrix that a stem must hold, and which of its rows are wanted.
struct WantedMatrix {
  std::uint32_t rows = 0;  ///< as stored: both halves of a fused one
  std::uint32_t cols = 0;
  /// One of `slabs` matrices in a tensor of one dimension more; 0: the tensor is the matrix.
  std::uint32_t slabs = 0;
  std::uint32_t slab = 0;
  bool plain_is_transposed = false;
};

class MatrixFinder {
 public:
  /// Both must outlive the finder.
  MatrixFinder(const FindTensor& find, std::vector<Read>& reads) : find_(find), reads_(reads) {}

  /// By stem, in any form: plain, FP8 with block scales, FP4, int4, GGUF blocks.
  [[nodiscard]] Result<work::SourceMatrix> matrix(const std::string& stem,
                                                  const WantedMatrix& wanted);
  /// A plain float matrix by its full name; [cols] will do where rows is 1.
  [[nodiscard]] Result<work::SourceMatrix> plain(const std::string& name, std::uint32_t rows,
                                                 std::uint32_t cols);
  /// A plain float vector: [size], or one row of [slabs, size].
  [[nodiscard]] Result<work::SourceMatrix> vector(const std::string& name, std::uint32_t size,
                                                  std::uint32_t slabs, std::uint32_t slab);
  /// An integer matrix of any number of rows.
  [[nodiscard]] Result<work::SourceMatrix> table(const std::string& name, std::uint32_t cols);

 private:
  struct Scales {
    std::string name;
    std::vector<std::uint64_t> shape;  ///< of one matrix
  };

  [[nodiscard]] Result<const work::SourceTensor*> need(const std::string& name) const;
  [[nodiscard]] Result<work::SourceMatrix> packed(const std::string& stem,
                                                  const WantedMatrix& wanted);
  [[nodiscard]] Result<work::SourceMatrix> blocks(const std::string& stem,
                                                  const WantedMatrix& wanted);
  [[nodiscard]] Result<work::SourceMatrix> weight(const std::string& stem, const std::string& name,
                                                  const WantedMatrix& wanted);
  [[nodiscard]] Result<work::SourceMatrix> dense(const std::string& name,
                                                 const work::SourceTensor& tensor,
                                                 const WantedMatrix& wanted);
  [[nodiscard]] Result<work::SourceMatrix> with_scales(const std::string& name,
                                                       tensor::CheckpointFormat format,
                                                       const std::vector<std::uint64_t>& shape,
                                                       const Scales& scales,
                                                       const WantedMatrix& wanted);
  /// The part that will hold one slab of `tensor`, or all of it.
  [[nodiscard]] std::size_t part_of(const std::string& name, const work::SourceTensor& tensor,
                                    const WantedMatrix& wanted);

  const FindTensor& find_;
  std::vector<Read>& reads_;
};

}  // namespace tenzro::prepare
