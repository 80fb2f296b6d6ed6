#pragma once
/// \file
/// Builds blobs for tests, right ones and wrong ones.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/tensor/block.hpp"
#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::wire {

class BlobBuilder {
 public:
  using Shape = std::vector<std::uint64_t>;

  BlobBuilder& raw(std::string name, tensor::DType dtype, Shape shape,
                   std::vector<std::byte> bytes) {
    drop(name);
    tensors_.push_back({std::move(name), dtype, std::move(shape), std::move(bytes)});
    return *this;
  }

  template <typename T>
  BlobBuilder& values(std::string name, tensor::DType dtype, Shape shape,
                      const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return raw(std::move(name), dtype, std::move(shape), {bytes.begin(), bytes.end()});
  }

  BlobBuilder& f32(std::string name, Shape shape, const std::vector<float>& numbers) {
    return values(std::move(name), tensor::DType::f32, std::move(shape), numbers);
  }

  /// Encoded rows as the blob format stores them.
  BlobBuilder& quantized(const std::string& name, tensor::WeightType type, std::size_t rows,
                         std::size_t cols, const std::vector<float>& numbers) {
    std::vector<std::byte> bytes = encoded(type, cols, numbers);
    metadata(name + ".quant", std::string(tensor::name_of(type)));
    metadata(name + ".shape", std::to_string(rows) + ',' + std::to_string(cols));
    const std::uint64_t size = bytes.size();
    return raw(name, tensor::DType::u8, {size}, std::move(bytes));
  }

  BlobBuilder& metadata(std::string key, std::string value) {
    metadata_.insert_or_assign(std::move(key), std::move(value));
    return *this;
  }

  BlobBuilder& without_metadata(const std::string& key) {
    metadata_.erase(key);
    return *this;
  }

  BlobBuilder& drop(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
    return *this;
  }

  /// The bytes of a tensor, to be damaged.
  std::vector<std::byte>& bytes_of(const std::string& name) {
    for (Tensor& tensor : tensors_) {
      if (tensor.name == name) return tensor.bytes;
    }
    std::abort();
  }

  [[nodiscard]] std::vector<std::byte> build() const {
    std::vector<tensor::TensorToWrite> list;
    for (const Tensor& tensor : tensors_) {
      list.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
    }
    return tensor::write_safetensors(list, metadata_);
  }

  static std::vector<std::byte> encoded(tensor::WeightType type, std::size_t cols,
                                        const std::vector<float>& numbers) {
    const std::size_t stride = tensor::row_bytes(type, cols);
    std::vector<std::byte> bytes(numbers.size() / cols * stride);
    for (std::size_t row = 0; row < numbers.size() / cols; ++row) {
      tensor::encode_row(type, std::span(numbers).subspan(row * cols, cols),
                         std::span(bytes).subspan(row * stride, stride));
    }
    return bytes;
  }

 private:
  struct Tensor {
    std::string name;
    tensor::DType dtype;
    Shape shape;
    std::vector<std::byte> bytes;
  };

  std::vector<Tensor> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

/// Numbers that no format finds hard: a fixed pattern within [-1, 1].
inline std::vector<float> pattern(std::size_t size) {
  std::vector<float> numbers(size);
  for (std::size_t i = 0; i < size; ++i) {
    numbers[i] = (static_cast<float>((i * 31) % 97) - 48.0F) / 48.0F;
  }
  return numbers;
}

}  // namespace tenzro::wire
