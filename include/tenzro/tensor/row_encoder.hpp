#pragma once
/// \file
/// RowEncoder: encodes rows of checkpoint elements, with the bytes of `encode_row`.
///
/// This class does it one value after the other; a backend may give a faster one. Whichever it is,
/// the bytes are the same, so that who prepared a blob does not show in it.
/// Thread: any; immutable.
#include <cstddef>
#include <span>

#include "tenzro/tensor/block.hpp"
#include "tenzro/tensor/dtype.hpp"

namespace tenzro::tensor {

class RowEncoder {
 public:
  RowEncoder() = default;
  RowEncoder(const RowEncoder&) = delete;
  RowEncoder& operator=(const RowEncoder&) = delete;
  virtual ~RowEncoder() = default;

  /// `row` holds elements of `dtype` (a float type), `out` takes them as `type`. Requires the sizes
  /// that `encode_row` requires. A block with a non-finite element gets a NaN scale.
  virtual void encode(WeightType type, DType dtype, std::span<const std::byte> row,
                      std::span<std::byte> out) const;
};

}  // namespace tenzro::tensor
