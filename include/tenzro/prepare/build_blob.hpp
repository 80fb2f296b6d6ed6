#pragma once
/// \file
/// The compute bodies of a prepare job: find tensors in an index or a header, build an expert's or
/// a gate's blob.
///
/// Rules
///  - Without quantisation F32, F16 and BF16 sources stay verbatim, as do GGUF's Q8_0, Q4_K and
///    Q6_K; packed sources (FP8, FP4, int4, other GGUF blocks) are decoded exactly and become BF16
///    (nearest even), or F32 where `dense_f32` says so.
///  - A source that has the wanted block type already is kept, not encoded again.
///  - A projection whose rows do not divide by its block falls back to Q8_0, then to its dense form
///    where they do not divide by 32 either; `strict` refuses instead. The result says what each
///    projection really is.
///  - Non-finite values, in the source or in a scale that f16 cannot hold, are refused, naming
///  layer,
///    expert, tensor and row.
///  - Importance of columns is heeded by Q4_K and Q6_K alone.
/// Rows are split over the executor; a worker needs a few rows' memory beside blob and source.
/// Error code: runtime. Pure; any worker thread.
#include "tenzro/compute/backend.hpp"
#include "tenzro/tensor/row_encoder.hpp"
#include "tenzro/work/source.hpp"

namespace tenzro::prepare {

[[nodiscard]] Result<work::ScannedIndex> scan_index(const work::ScanIndex& job);
[[nodiscard]] Result<work::ScannedHeader> scan_header(const work::ScanHeader& job);
[[nodiscard]] Result<work::ScannedGguf> scan_gguf(const work::ScanGguf& job);
[[nodiscard]] Result<work::BuiltExpertBlob> build_expert_blob(const work::BuildExpertBlob& job,
                                                              compute::Executor& executor,
                                                              const tensor::RowEncoder& encoder);
[[nodiscard]] Result<work::BuiltGateBlob> build_gate_blob(const work::BuildGateBlob& job);

}  // namespace tenzro::prepare
