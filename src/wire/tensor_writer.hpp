#pragma once
/// \file
/// Collects the tensors and metadata of a blob that is being made.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/compute/weights.hpp"
#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::wire {

class TensorWriter {
 public:
  /// Dense as two dimensions of its dtype; quantised as U8 block bytes with two metadata entries.
  /// Requires at least one row and column, and exactly the bytes that the shape needs.
  void matrix(std::string_view name, const compute::MatrixView& matrix);
  /// F32, one dimension. Nothing is written for an empty vector.
  void vector(std::string_view name, std::span<const float> values);

  void tensor(tensor::TensorToWrite tensor) { tensors_.push_back(std::move(tensor)); }

  void metadata(std::string_view key, std::string value);

  /// The file. The tensors' bytes must still be there.
  [[nodiscard]] std::vector<std::byte> file() const {
    return tensor::write_safetensors(tensors_, metadata_);
  }

 private:
  std::vector<tensor::TensorToWrite> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace tenzro::wire
