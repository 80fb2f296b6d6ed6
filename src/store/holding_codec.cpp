#include "holding_codec.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "tenzro/base/assert.hpp"

namespace tenzro::store {
namespace {

constexpr std::int64_t kGateExpert = -1;

enum Column : int {
  model,
  layer,
  expert,
  hash,
  source_uri,
  d_model,
  d_ff,
  gate_type,
  up_type,
  down_type,
  resident_bytes,
  gate_experts,
  gate_d_model,
  gate_bytes,
};

std::int64_t to_column(std::uint64_t value) {
  TENZRO_ASSERT(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  return static_cast<std::int64_t>(value);
}

/// Reads columns, and remembers whether all of them could be what was written.
class Reader {
 public:
  explicit Reader(const Statement& statement) : statement_(statement) {}

  [[nodiscard]] bool is_good() const { return is_good_; }

  std::uint64_t u64(int column) {
    const std::int64_t value = statement_.integer(column);
    is_good_ = is_good_ && value >= 0;
    return static_cast<std::uint64_t>(value);
  }

  std::uint32_t u32(int column) {
    const std::uint64_t value = u64(column);
    is_good_ = is_good_ && value <= std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>(value);
  }

  tensor::WeightType weight_type(int column) {
    const std::optional<tensor::WeightType> type =
        tensor::weight_type_from_name(statement_.text(column));
    is_good_ = is_good_ && type.has_value();
    return type.value_or(tensor::WeightType::f32);
  }

 private:
  const Statement& statement_;
  bool is_good_ = true;
};

}  // namespace

std::int64_t expert_column(std::optional<ExpertIndex> expert_index) {
  return expert_index ? std::int64_t{*expert_index} : kGateExpert;
}

void bind_holding(Statement& statement, const work::HoldingRow& row) {
  statement.bind(row.layer.model)
      .bind(std::int64_t{row.layer.layer})
      .bind(expert_column(row.expert))
      .bind(row.hash);
  if (row.source_uri) {
    statement.bind(*row.source_uri);
  } else {
    statement.bind_null();
  }
  statement.bind(std::int64_t{row.facts.d_model}).bind(std::int64_t{row.facts.d_ff});
  if (row.facts.gate_type) {
    statement.bind(tensor::name_of(*row.facts.gate_type));
  } else {
    statement.bind_null();
  }
  statement.bind(tensor::name_of(row.facts.up_type))
      .bind(tensor::name_of(row.facts.down_type))
      .bind(to_column(row.facts.resident_bytes))
      .bind(std::int64_t{row.gate_experts})
      .bind(std::int64_t{row.gate_d_model})
      .bind(to_column(row.gate_bytes));
}

std::optional<BlobHash> read_hash(const Statement& statement, int column) {
  const std::span<const std::uint8_t> bytes = statement.blob(column);
  BlobHash result{};
  if (bytes.size() != result.size()) return std::nullopt;
  std::copy(bytes.begin(), bytes.end(), result.begin());
  return result;
}

std::optional<work::HoldingRow> read_holding(const Statement& statement) {
  Reader reader(statement);
  work::HoldingRow row;
  row.layer = {std::string(statement.text(model)), reader.u32(layer)};
  if (statement.integer(expert) != kGateExpert) row.expert = reader.u32(expert);
  const std::optional<BlobHash> blob_hash = read_hash(statement, hash);
  if (!blob_hash || row.layer.model.empty()) return std::nullopt;
  row.hash = *blob_hash;
  if (!statement.is_null(source_uri)) row.source_uri = std::string(statement.text(source_uri));
  row.facts.d_model = reader.u32(d_model);
  row.facts.d_ff = reader.u32(d_ff);
  if (!statement.is_null(gate_type)) row.facts.gate_type = reader.weight_type(gate_type);
  row.facts.up_type = reader.weight_type(up_type);
  row.facts.down_type = reader.weight_type(down_type);
  row.facts.resident_bytes = reader.u64(resident_bytes);
  row.gate_experts = reader.u32(gate_experts);
  row.gate_d_model = reader.u32(gate_d_model);
  row.gate_bytes = reader.u64(gate_bytes);
  if (!reader.is_good()) return std::nullopt;
  return row;
}

}  // namespace tenzro::store
