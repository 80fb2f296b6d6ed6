#pragma once
/// \file
/// tensor::RowEncoder over the encode kernels of one ISA. Bytes are those of the scalar encoder.
#include "tenzro/tensor/row_encoder.hpp"

#include "kernels/cpu/backend/kernel_table.hpp"

namespace tenzro::kernels {

class CpuRowEncoder final : public tensor::RowEncoder {
 public:
  /// Requires is_available(isa).
  explicit CpuRowEncoder(Isa isa) : isa_(isa) {}

  void encode(tensor::WeightType type, tensor::DType dtype, std::span<const std::byte> row,
              std::span<std::byte> out) const override;

 private:
  [[nodiscard]] TzEncodeFn find(tensor::DType source, tensor::WeightType type) const;

  Isa isa_;
};

}  // namespace tenzro::kernels
