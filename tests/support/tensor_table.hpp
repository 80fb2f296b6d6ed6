#pragma once
/// \file
/// TensorTable: the tensors of one or more safetensors files, by name.
///
/// For tests: a missing file, tensor or dtype ends the test program with a sentence. Views point
/// into the table, so it must outlive them.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tenzro/compute/weights.hpp"
#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::testing {

class TensorTable {
 public:
  /// Reads every file whole. Names must be unique over all of them.
  explicit TensorTable(const std::vector<std::string>& paths);

  TensorTable(TensorTable&&) = default;
  TensorTable& operator=(TensorTable&&) = default;
  TensorTable(const TensorTable&) = delete;
  TensorTable& operator=(const TensorTable&) = delete;
  ~TensorTable() = default;

  [[nodiscard]] bool has(const std::string& name) const { return places_.contains(name); }

  /// Names that begin with `prefix`.
  [[nodiscard]] std::vector<std::string> names(const std::string& prefix) const;

  [[nodiscard]] const tensor::TensorInfo& info(const std::string& name) const;
  [[nodiscard]] std::span<const std::byte> bytes(const std::string& name) const;

  /// Any float dtype, widened.
  [[nodiscard]] std::vector<float> floats(const std::string& name) const;
  /// I32 or I64.
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& name) const;

  /// A two-dimensional F32, F16 or BF16 tensor.
  [[nodiscard]] compute::MatrixView matrix(const std::string& name) const;
  /// Rows [first_row, first_row + rows) of matrix `index` of a three-dimensional one.
  [[nodiscard]] compute::MatrixView slab_rows(const std::string& name, std::uint64_t index,
                                              std::uint64_t first_row, std::uint64_t rows) const;

 private:
  struct Place {
    std::size_t file = 0;
    tensor::TensorInfo info;
  };

  [[nodiscard]] const Place& place(const std::string& name) const;

  std::vector<std::vector<std::byte>> files_;
  std::map<std::string, Place> places_;
};

/// Ends the test program with a sentence.
[[noreturn]] void stop(const std::string& sentence);

/// The whole file; stops where it cannot be read.
[[nodiscard]] std::vector<std::byte> read_file(const std::string& path);

}  // namespace tenzro::testing
