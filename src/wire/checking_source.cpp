#include "checking_source.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "tenzro/base/assert.hpp"

#include "tensor_reader.hpp"

namespace tenzro::wire {
namespace {

/// Where a matrix is in the source; its view has no bytes.
struct Place {
  std::string_view name;
  compute::MatrixView matrix;
  std::uint64_t begin = 0;

  [[nodiscard]] std::size_t row_bytes() const {
    return tensor::row_bytes(matrix.type, matrix.cols);
  }

  [[nodiscard]] std::uint64_t end() const { return begin + row_bytes() * matrix.rows; }
};

class CheckingSource final : public compute::WeightSource {
 public:
  CheckingSource(std::shared_ptr<const compute::WeightSource> source, std::vector<Place> places)
      : source_(std::move(source)), places_(std::move(places)) {}

  [[nodiscard]] std::uint64_t size_bytes() const override { return source_->size_bytes(); }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    Status done = source_->read(offset, to);
    return done ? check(offset, to) : done;
  }

  [[nodiscard]] Result<std::span<const std::byte>> view(
      std::uint64_t offset, std::size_t size, std::vector<std::byte>& scratch) const override {
    auto bytes = source_->view(offset, size, scratch);
    if (!bytes) return bytes;
    if (Status checked = check(offset, *bytes); !checked)
      return tl::unexpected<Error>(checked.error());
    return bytes;
  }

 private:
  [[nodiscard]] Status check(std::uint64_t offset, std::span<const std::byte> bytes) const {
    for (const Place& place : places_) {
      if (offset < place.begin || offset >= place.end()) continue;
      const std::uint64_t from = offset - place.begin;
      const std::size_t row_bytes = place.row_bytes();
      TENZRO_ASSERT(from % row_bytes == 0);
      TENZRO_ASSERT(bytes.size() % row_bytes == 0);
      TENZRO_ASSERT(bytes.size() <= place.end() - offset);
      compute::MatrixView rows = place.matrix;
      rows.rows = static_cast<std::uint32_t>(bytes.size() / row_bytes);
      rows.bytes = bytes;
      return check_rows(place.name, rows, static_cast<std::uint32_t>(from / row_bytes));
    }
    return {};
  }

  std::shared_ptr<const compute::WeightSource> source_;
  std::vector<Place> places_;
};

}  // namespace

std::shared_ptr<const compute::WeightSource> checking_source(const compute::ExpertView& view) {
  const compute::WeightStream& stream = *view.stream;
  std::vector<Place> places{{"up_proj.weight", view.up, stream.up_begin},
                            {"down_proj.weight", view.down, stream.down_begin}};
  if (view.gate) places.push_back({"gate_proj.weight", *view.gate, stream.gate_begin});
  return std::make_shared<CheckingSource>(stream.source, std::move(places));
}

}  // namespace tenzro::wire
