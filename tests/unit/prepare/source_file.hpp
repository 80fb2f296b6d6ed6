#pragma once
/// \file
/// A checkpoint file in memory, and what a plan's blobs look like when their ranges are read from
/// it: what a job does, without job, store or node.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "layer_plan.hpp"

namespace tenzro::testing {

/// One tensor to put into a file.
struct FileTensor {
  tensor::DType dtype = tensor::DType::f32;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;
};

using FileTensors = std::map<std::string, FileTensor>;

class SourceFile {
 public:
  explicit SourceFile(std::vector<std::byte> safetensors);
  explicit SourceFile(const FileTensors& tensors);
  /// Stops the program where it is no GGUF file.
  [[nodiscard]] static SourceFile of_gguf(const std::string& file);

  /// Of a GGUF file.
  [[nodiscard]] const std::map<std::string, tensor::GgufValue, std::less<>>& metadata() const {
    return metadata_;
  }

  [[nodiscard]] std::vector<std::byte>& bytes() { return bytes_; }

  [[nodiscard]] const work::SourceTensor& at(const std::string& name) const {
    return tensors_.at(name);
  }

  [[nodiscard]] bool has(const std::string& name) const { return tensors_.contains(name); }

  [[nodiscard]] prepare::FindTensor finder() const;
  [[nodiscard]] BufferRef read(std::uint64_t begin, std::uint64_t end) const;

  /// The blob of one expert; `change` may set quants and the like.
  [[nodiscard]] Result<work::BuiltExpertBlob> expert(
      const prepare::Checkpoint& checkpoint, LayerIndex layer, ExpertIndex expert,
      const std::function<void(work::BuildExpertBlob&)>& change = {}) const;
  [[nodiscard]] Result<work::BuiltGateBlob> gate(const prepare::Checkpoint& checkpoint,
                                                 LayerIndex layer) const;

 private:
  SourceFile() = default;

  void scan();

  std::vector<std::byte> bytes_;
  std::map<std::string, work::SourceTensor, std::less<>> tensors_;
  std::map<std::string, tensor::GgufValue, std::less<>> metadata_;
};

/// Stops the program where the text is refused.
[[nodiscard]] prepare::Checkpoint checkpoint_of(const std::string& config_json);

}  // namespace tenzro::testing
