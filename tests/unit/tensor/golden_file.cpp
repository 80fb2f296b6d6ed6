#include "unit/tensor/golden_file.hpp"

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tenzro::tensor::test {

std::vector<std::byte> read_data(const std::string& path) {
  std::ifstream file(std::string(TENZRO_TEST_DATA) + "/" + path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::map<std::string, GoldenArray> read_golden_arrays(const std::string& stem) {
  const std::vector<std::byte> manifest = read_data("quant/" + stem + ".json");
  const std::vector<std::byte> data = read_data("quant/" + stem + ".bin");
  const auto* text = static_cast<const char*>(static_cast<const void*>(manifest.data()));
  const auto json = nlohmann::json::parse(text, text + manifest.size());
  std::map<std::string, GoldenArray> arrays;
  for (const auto& entry : json.at("entries")) {
    const auto offset = entry.at("offset").get<std::size_t>();
    const auto size = entry.at("nbytes").get<std::size_t>();
    const auto bytes = std::span(data).subspan(offset, size);
    arrays[entry.at("name").get<std::string>()] = GoldenArray{
        .bytes = {bytes.begin(), bytes.end()},
        .shape = entry.at("shape").get<std::vector<std::size_t>>(),
        .byte_stable = entry.value("byte_stable", true),
    };
  }
  return arrays;
}

template <typename T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template std::vector<float> values_of(std::span<const std::byte>);
template std::vector<double> values_of(std::span<const std::byte>);
template std::vector<std::uint16_t> values_of(std::span<const std::byte>);
template std::vector<std::uint8_t> values_of(std::span<const std::byte>);
template std::vector<std::int8_t> values_of(std::span<const std::byte>);

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

}  // namespace tenzro::tensor::test
