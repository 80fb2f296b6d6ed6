#pragma once
/// \file
/// The compute bodies of a prepare job: find tensors in an index or a header, build an expert's or
/// a gate's blob.
///
/// Rules
///  - Without quantisation F32, F16 and BF16 sources stay verbatim.
///  - A projection whose rows do not divide by its block falls back to Q8_0, then to its source
///  form where they do not divide
///    by 32 either; `strict` refuses instead. The result says what each projection really is.
///  - Non-finite values are refused, naming tensor and row.
/// Rows are split over the executor. Error code: runtime. Pure; any worker thread.
#include "tenzro/compute/backend.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::prepare {

[[nodiscard]] Result<work::ScannedIndex> scan_index(const work::ScanIndex& job);
[[nodiscard]] Result<work::ScannedHeader> scan_header(const work::ScanHeader& job);
[[nodiscard]] Result<work::BuiltExpertBlob> build_expert_blob(const work::BuildExpertBlob& job,
                                                              compute::Executor& executor);
[[nodiscard]] Result<work::BuiltGateBlob> build_gate_blob(const work::BuildGateBlob& job);

}  // namespace tenzro::prepare
