#pragma once
/// \file
/// The compute body of a prepare job: decode one expert's source matrices, quantise them, write the blob.
///
/// Rules
///  - Without quantisation F32, F16 and BF16 sources stay verbatim; other encodings become BF16 (nearest even), or F32 where
///    the job says so. The decoders themselves are exact in f32.
///  - A projection whose rows do not divide by the block falls back to Q8_0 (then to its dense form, where they do not divide
///    by 32 either); `strict` refuses instead. The result says what each projection really is.
///  - Non-finite values are refused, naming tensor and row.
/// Rows are split over the executor. Error code: runtime. Pure.
#include "tenzro/compute/backend.hpp"
#include "tenzro/work/job.hpp"

namespace tenzro::prepare {

[[nodiscard]] Result<work::BuiltExpertBlob> build_expert_blob(const work::BuildExpertBlob& job,
                                                              compute::Executor& executor);

}  // namespace tenzro::prepare
