#pragma once
/// \file
/// Arrays of the golden data in tests/data: a JSON manifest beside one binary file.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tenzro::tensor::test {

/// A whole file under tests/data. The test fails where there is none.
[[nodiscard]] std::vector<std::byte> read_data(const std::string& path);

struct GoldenArray {
  std::vector<std::byte> bytes;
  std::vector<std::size_t> shape;
  bool byte_stable = true;

  template <typename T>
  [[nodiscard]] std::vector<T> as() const;
};

/// The entries of `quant/<stem>.json`, by name.
[[nodiscard]] std::map<std::string, GoldenArray> read_golden_arrays(const std::string& stem);

/// Little-endian values of T.
template <typename T>
[[nodiscard]] std::vector<T> values_of(std::span<const std::byte> bytes);

/// Bit patterns: equal NaNs compare equal, 0 and -0 do not.
[[nodiscard]] std::vector<std::uint32_t> bits_of(std::span<const float> values);

template <typename T>
std::vector<T> GoldenArray::as() const {
  return values_of<T>(bytes);
}

}  // namespace tenzro::tensor::test
