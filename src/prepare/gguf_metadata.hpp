#pragma once
/// \file
/// GgufMetadata: keys of a GGUF file below its architecture's name, keeping the first error.
///
/// A value for each layer serves as one where all are the same; layers without (0) do not count.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tenzro/base/result.hpp"
#include "tenzro/tensor/gguf.hpp"

namespace tenzro::prepare {

class GgufMetadata {
 public:
  using Entries = std::map<std::string, tensor::GgufValue, std::less<>>;

  /// `entries` outlive this.
  GgufMetadata(const Entries& entries, std::string architecture)
      : entries_(entries), architecture_(std::move(architecture)) {}

  std::optional<std::uint32_t> optional_count(std::string_view key, std::uint32_t min,
                                              std::uint32_t max);
  std::uint32_t count(std::string_view key, std::uint32_t max);
  double number(std::string_view key, double absent);
  bool boolean(std::string_view key, bool absent);
  void refuse(std::string_view key, const std::string& why);

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  [[nodiscard]] const tensor::GgufValue* find(std::string_view key) const;
  double one_of(std::string_view key, const std::vector<double>& layers);

  const Entries& entries_;
  std::string architecture_;
  std::optional<Error> error_;
};

}  // namespace tenzro::prepare
