#pragma once
/// \file
/// A small qwen3_moe checkpoint in a temporary folder, which a test may then spoil.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tenzro/tensor/dtype.hpp"

namespace tenzro::testing {

class CheckpointFolder {
 public:
  struct Tensor {
    tensor::DType dtype = tensor::DType::f32;
    std::vector<std::uint64_t> shape;
    std::vector<std::byte> bytes;
  };

  using Tensors = std::map<std::string, Tensor>;

  struct Shape {
    std::uint32_t hidden = 32;
    std::uint32_t ffn = 64;
    std::uint32_t experts = 3;
  };

  /// Layer 0 with random F32 weights, in one file; `spoil` may change the tensors before they are
  /// written.
  explicit CheckpointFolder(const Shape& shape, const std::function<void(Tensors&)>& spoil = {});
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

  void write(const std::string& file, const std::string& text) const;
  void remove(const std::string& file) const;
  /// config.json with one key replaced by JSON text; an empty text removes it.
  void set_config(const std::string& key, const std::string& json);

 private:
  std::string path_;
  std::map<std::string, std::string> config_;
};

}  // namespace tenzro::testing
