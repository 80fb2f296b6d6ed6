#pragma once
/// \file
/// Checked access to the weights of one blob: views and widened vectors, or the error that clients
/// know.
///
/// Whatever is returned has the asked shape, exactly the bytes that shape needs, at least one row
/// and column, 32-bit dimensions, and finite values. A shape that is already known is demanded; one
/// that is not is taken from the tensor.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/compute/weights.hpp"
#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::wire {

/// Dimensions of a matrix; `text` describes them where a number is not known yet.
struct WantedShape {
  std::string_view text;
  std::optional<std::uint32_t> rows;
  std::optional<std::uint32_t> cols;
};

enum class Storage : std::uint8_t {
  dense,              ///< F32, F16, BF16
  dense_or_quantized  ///< also U8 block bytes described by metadata
};

class TensorReader {
 public:
  /// Views returned later point into `blob`.
  [[nodiscard]] static Result<TensorReader> open(std::span<const std::byte> blob);

  /// Over the header alone (without its length) of a blob of so many bytes: matrices then have no
  /// bytes, are checked in shape and not in values, and there are no vectors.
  [[nodiscard]] static Result<TensorReader> open_header(std::span<const std::byte> header,
                                                        std::uint64_t blob_bytes);

  [[nodiscard]] bool has(std::string_view name) const { return header_.find(name) != nullptr; }

  /// The metadata value, or nothing.
  [[nodiscard]] const std::string* metadata(std::string_view key) const;

  [[nodiscard]] Result<compute::MatrixView> matrix(std::string_view name, const WantedShape& wanted,
                                                   Storage storage) const;
  /// One dimension of `size` values, widened to f32. Dense dtypes only.
  [[nodiscard]] Result<std::vector<float>> vector(std::string_view name, std::uint32_t size) const;
  /// As `vector`, but empty where the blob has no such tensor.
  [[nodiscard]] Result<std::vector<float>> optional_vector(std::string_view name,
                                                           std::uint32_t size) const;
  /// The tensor as it stands, whatever its dtype and shape.
  [[nodiscard]] Result<const tensor::TensorInfo*> find(std::string_view name) const;
  [[nodiscard]] std::span<const std::byte> bytes_of(const tensor::TensorInfo& info) const;

 private:
  TensorReader(std::span<const std::byte> blob, tensor::SafetensorsHeader header)
      : blob_(blob), header_(std::move(header)) {}

  [[nodiscard]] Result<compute::MatrixView> dense(std::string_view name,
                                                  const tensor::TensorInfo& info) const;
  [[nodiscard]] Result<compute::MatrixView> quantized(std::string_view name,
                                                      const tensor::TensorInfo& info,
                                                      std::string_view quant) const;

  std::span<const std::byte> blob_;
  tensor::SafetensorsHeader header_;
};

/// Whether every row may be served. Error: runtime, naming the row, whose number in the whole
/// matrix is `first_row` more than in `matrix`.
[[nodiscard]] Status check_rows(std::string_view name, const compute::MatrixView& matrix,
                                std::uint32_t first_row = 0);

/// One dimension of `size` values as `info` describes them, widened.
[[nodiscard]] Result<std::vector<float>> widened(std::string_view name,
                                                 const tensor::TensorInfo& info, std::uint32_t size,
                                                 std::span<const std::byte> bytes);

/// "tensor 'X' has shape …, expected …".
[[nodiscard]] tl::unexpected<Error> wrong_shape(std::string_view name,
                                                std::span<const std::uint64_t> shape,
                                                std::string_view expected);

}  // namespace tenzro::wire
