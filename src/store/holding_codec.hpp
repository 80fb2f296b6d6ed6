#pragma once
/// \file
/// A holding as columns of the index, both ways.
#include <optional>

#include "tenzro/base/ids.hpp"
#include "tenzro/work/job.hpp"

#include "sqlite.hpp"

namespace tenzro::store {

inline constexpr const char* kHoldingColumns =
    "model, layer, expert, hash, source_uri, d_model, d_ff, gate_type, up_type, down_type, "
    "resident_bytes, "
    "gate_experts, gate_d_model, gate_bytes";

/// The `expert` column of a key.
[[nodiscard]] std::int64_t expert_column(std::optional<ExpertIndex> expert);

/// Binds the columns of kHoldingColumns in order. `row` must outlive the statement's step.
void bind_holding(Statement& statement, const work::HoldingRow& row);

/// Nothing where a column has a value that bind_holding never makes.
[[nodiscard]] std::optional<work::HoldingRow> read_holding(const Statement& statement);

[[nodiscard]] std::optional<BlobHash> read_hash(const Statement& statement, int column);

}  // namespace tenzro::store
