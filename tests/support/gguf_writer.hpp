#pragma once
/// \file
/// GgufWriter: a GGUF file, version 3, piece by piece.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenzro/tensor/ggml_type.hpp"

namespace tenzro::testing {

class GgufWriter {
 public:
  GgufWriter& number(const std::string& key, std::uint32_t value) {
    return entry(key, kU32, scalar(value));
  }

  GgufWriter& real(const std::string& key, float value) { return entry(key, kF32, scalar(value)); }

  GgufWriter& flag(const std::string& key, bool value) {
    return entry(key, kBool, std::string(1, value ? '\1' : '\0'));
  }

  GgufWriter& text(const std::string& key, const std::string& value) {
    return entry(key, kString, string(value));
  }

  GgufWriter& reals(const std::string& key, const std::vector<float>& values) {
    std::string bytes = scalar(kF32) + scalar(std::uint64_t{values.size()});
    for (const float value : values) bytes += scalar(value);
    return entry(key, kArray, bytes);
  }

  /// `shape` outermost first.
  GgufWriter& tensor(const std::string& name, const std::vector<std::uint64_t>& shape,
                     std::span<const std::byte> bytes,
                     tensor::GgmlType type = tensor::GgmlType::f32) {
    tensors_ += string(name) + scalar(static_cast<std::uint32_t>(shape.size()));
    for (auto size = shape.rbegin(); size != shape.rend(); ++size) tensors_ += scalar(*size);
    tensors_ += scalar(static_cast<std::uint32_t>(type)) + scalar(std::uint64_t{data_.size()});
    data_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    pad(data_);
    ++tensor_count_;
    return *this;
  }

  [[nodiscard]] std::string bytes() const {
    std::string file = "GGUF" + scalar(std::uint32_t{3}) + scalar(tensor_count_) +
                       scalar(entry_count_) + entries_ + tensors_;
    pad(file);
    return file + data_;
  }

 private:
  static constexpr std::size_t kAlignment = 32;
  static constexpr std::uint32_t kU32 = 4;
  static constexpr std::uint32_t kF32 = 6;
  static constexpr std::uint32_t kBool = 7;
  static constexpr std::uint32_t kString = 8;
  static constexpr std::uint32_t kArray = 9;

  template <typename T>
  static std::string scalar(T value) {
    const auto bytes = std::bit_cast<std::array<char, sizeof value>>(value);
    return {bytes.data(), bytes.size()};
  }

  static std::string string(const std::string& value) {
    return scalar(std::uint64_t{value.size()}) + value;
  }

  static void pad(std::string& bytes) {
    bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
  }

  GgufWriter& entry(const std::string& key, std::uint32_t type, const std::string& value) {
    entries_ += string(key) + scalar(type) + value;
    ++entry_count_;
    return *this;
  }

  std::string entries_;
  std::string tensors_;
  std::string data_;
  std::uint64_t entry_count_ = 0;
  std::uint64_t tensor_count_ = 0;
};

}  // namespace tenzro::testing
