// Expert blobs: whatever is accepted has one width and one depth, is written so that it reads the
// same, and is read by slices as it is read whole, its values checked at once or as they are
// viewed; what is refused is refused in all ways.
#include "tenzro/wire/expert_blob.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tenzro/base/assert.hpp"

namespace {

using tenzro::ErrorCode;
using tenzro::Result;
using tenzro::Status;
using tenzro::compute::ExpertView;
using tenzro::compute::MatrixView;
using tenzro::wire::ExpertBlob;
using tenzro::wire::open_expert_blob;
using tenzro::wire::Values;

/// Longer headers are read whole only.
constexpr std::size_t kSlicedBytesMax = std::size_t{1} << 20U;
constexpr std::uint64_t kAmpleMemory = std::uint64_t{1} << 40U;
constexpr std::uint64_t kLittleMemory = 600;

class BytesSource final : public tenzro::compute::WeightSource {
 public:
  explicit BytesSource(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint64_t size_bytes() const override { return bytes_.size(); }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    TENZRO_ASSERT(offset <= bytes_.size());
    TENZRO_ASSERT(to.size() <= bytes_.size() - offset);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
    return {};
  }

 private:
  std::span<const std::byte> bytes_;
};

void check_same(std::span<const std::byte> blob, const ExpertBlob& sliced,
                const ExpertBlob& whole) {
  const auto same = [&](const MatrixView& matrix, std::uint64_t begin, const MatrixView& wanted) {
    TENZRO_ASSERT(matrix.type == wanted.type);
    TENZRO_ASSERT(matrix.rows == wanted.rows);
    TENZRO_ASSERT(matrix.cols == wanted.cols);
    TENZRO_ASSERT(matrix.bytes.empty());
    TENZRO_ASSERT(blob.data() + begin == wanted.bytes.data());
  };
  const tenzro::compute::WeightStream& stream = *sliced.view.stream;
  TENZRO_ASSERT(sliced.view.gate.has_value() == whole.view.gate.has_value());
  if (whole.view.gate) same(*sliced.view.gate, stream.gate_begin, *whole.view.gate);
  same(sliced.view.up, stream.up_begin, whole.view.up);
  same(sliced.view.down, stream.down_begin, whole.view.down);
  for (std::size_t i = 0; i < std::size(whole.biases); ++i)
    TENZRO_ASSERT(sliced.biases[i] == whole.biases[i]);
}

/// Whether all rows of the matrix can be viewed, `rows_max` at a time.
bool is_viewed(const tenzro::compute::WeightSource& source, const MatrixView& matrix,
               std::uint64_t begin, std::uint32_t rows_max) {
  const std::size_t row_bytes = tenzro::tensor::row_bytes(matrix.type, matrix.cols);
  std::vector<std::byte> scratch;
  std::uint32_t rows = 0;
  for (std::uint32_t row = 0; row < matrix.rows; row += rows) {
    rows = std::min(rows_max, matrix.rows - row);
    const auto bytes = source.view(begin + row * row_bytes, rows * row_bytes, scratch);
    if (!bytes) {
      TENZRO_ASSERT(bytes.error().code == ErrorCode::runtime);
      return false;
    }
  }
  return true;
}

void check_as_viewed(const std::shared_ptr<BytesSource>& source, bool is_whole_accepted) {
  const auto opened = open_expert_blob(source, Values::as_viewed, kAmpleMemory);
  if (!opened) {
    TENZRO_ASSERT(!is_whole_accepted);
    return;
  }
  const ExpertView& view = opened->view;
  const tenzro::compute::WeightStream& stream = *view.stream;
  for (const std::uint32_t rows_max : {7U, UINT32_MAX}) {
    const bool is_accepted =
        (!view.gate || is_viewed(*stream.source, *view.gate, stream.gate_begin, rows_max)) &&
        is_viewed(*stream.source, view.up, stream.up_begin, rows_max) &&
        is_viewed(*stream.source, view.down, stream.down_begin, rows_max);
    TENZRO_ASSERT(is_accepted == is_whole_accepted);
  }
}

void check_slices(std::span<const std::byte> blob, const Result<ExpertBlob>& whole) {
  const auto source = std::make_shared<BytesSource>(blob);
  check_as_viewed(source, whole.has_value());
  const auto sliced = open_expert_blob(source, Values::unknown, kAmpleMemory);
  TENZRO_ASSERT(sliced.has_value() == whole.has_value());
  if (sliced) {
    check_same(blob, *sliced, *whole);
    TENZRO_ASSERT(open_expert_blob(source, Values::known, kAmpleMemory).has_value());
  } else {
    TENZRO_ASSERT(!sliced.error().message().empty());
  }
  const auto narrow = open_expert_blob(source, Values::unknown, kLittleMemory);
  if (narrow) {
    TENZRO_ASSERT(whole.has_value());
  } else {
    TENZRO_ASSERT(!whole || narrow.error().code == ErrorCode::no_space);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> blob = std::as_bytes(std::span(data, size));
  const auto expert = tenzro::wire::parse_expert_blob(blob);
  if (size <= kSlicedBytesMax) check_slices(blob, expert);
  if (!expert) {
    TENZRO_ASSERT(!expert.error().message().empty());
    return 0;
  }
  const ExpertView& view = expert->view;
  TENZRO_ASSERT(view.d_model() != 0);
  TENZRO_ASSERT(view.d_ff() != 0);
  const std::vector<std::byte> made = tenzro::wire::make_expert_blob(view);
  const auto again = tenzro::wire::parse_expert_blob(made);
  TENZRO_ASSERT(again.has_value());
  TENZRO_ASSERT(tenzro::wire::make_expert_blob(again->view) == made);
  return 0;
}
