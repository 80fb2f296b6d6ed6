#include "tenzro/receipts/carrier.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"
#include "tenzro/tensor/block.hpp"

namespace tenzro::receipts {
namespace {

using tensor::WeightType;

constexpr std::string_view kField = "hidden_q8";

Status refused(std::string detail) {
  return fail(ErrorCode::invalid_params, std::string(kField), std::move(detail));
}

Status check_row(std::span<const std::byte> row, std::uint64_t index) {
  const auto defect = tensor::find_defect(WeightType::q8_0, row);
  if (!defect) return {};
  return refused("row " + std::to_string(index) +
                 (*defect == tensor::RowDefect::q8_minus_128 ? " holds the value -128"
                                                             : " holds a non-finite scale"));
}

}  // namespace

Hash32 carrier_hash(CarrierKind kind, std::span<const std::byte> bytes) {
  const std::uint8_t kind_byte[] = {static_cast<std::uint8_t>(kind)};
  crypto::Sha256 hasher;
  hasher.update("tenzro/moe/carrier").update(kind_byte).update(bytes);
  return hasher.finish();
}

std::optional<std::uint64_t> q8_carrier_bytes(std::uint64_t rows, std::uint32_t d_model) {
  if (d_model == 0 || d_model % tensor::block_elements(WeightType::q8_0) != 0) return std::nullopt;
  return checked_mul(rows, tensor::row_bytes(WeightType::q8_0, d_model));
}

bool can_be_q8(std::span<const float> rows, std::uint32_t d_model) {
  if (rows.empty() || !q8_carrier_bytes(1, d_model)) return false;
  // A NaN is not at most anything.
  return std::all_of(rows.begin(), rows.end(),
                     [](float value) { return std::abs(value) <= kQ8AmaxMax; });
}

void encode_q8_rows(std::span<const float> rows, std::uint32_t d_model, std::span<std::byte> out) {
  TENZRO_ASSERT(d_model != 0);
  TENZRO_ASSERT(rows.size() % d_model == 0);
  const std::size_t count = rows.size() / d_model;
  TENZRO_ASSERT(out.size() == q8_carrier_bytes(count, d_model));
  const std::size_t stride = tensor::row_bytes(WeightType::q8_0, d_model);
  for (std::size_t i = 0; i < count; ++i) {
    tensor::encode_row(WeightType::q8_0, rows.subspan(i * d_model, d_model),
                       out.subspan(i * stride, stride));
  }
}

Status decode_q8_rows(std::span<const std::byte> bytes, std::uint64_t rows, std::uint32_t d_model,
                      std::span<float> out) {
  const std::optional<std::uint64_t> wanted = q8_carrier_bytes(rows, d_model);
  if (!wanted || bytes.size() != *wanted) {
    return refused("payload of " + std::to_string(bytes.size()) + " bytes does not match " +
                   std::to_string(rows) + " tokens x d_model " + std::to_string(d_model) +
                   (wanted ? ", which take " + std::to_string(*wanted) : std::string()));
  }
  TENZRO_ASSERT(out.size() == rows * d_model);
  const std::size_t stride = tensor::row_bytes(WeightType::q8_0, d_model);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::span<const std::byte> row = bytes.subspan(i * stride, stride);
    if (Status status = check_row(row, i); !status) return status;
    tensor::decode_row(WeightType::q8_0, row, out.subspan(i * d_model, d_model));
  }
  return {};
}

}  // namespace tenzro::receipts
