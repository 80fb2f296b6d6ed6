#pragma once
/// \file
/// One batch of a streamed expert.
///
/// Some rows at a time, as many as the scratch takes: first all their intermediate rows, then all
/// their outputs; each half is steps of output columns that the slots take in turn. Thread: made
/// and run by one, whose executor's threads are the slots'. Waits for other runs of the same
/// expert.
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "kernels/cpu/backend/multiplier.hpp"
#include "kernels/cpu/backend/streamed_expert.hpp"

namespace tenzro::kernels {

class StreamedRun {
 public:
  StreamedRun(const Multiplier& multiplier, const compute::ExpertsJob& job,
              const compute::ExpertBatch& batch, compute::Executor& executor,
              std::size_t scratch_bytes_max);

  [[nodiscard]] Status run();

 private:
  using Slot = StreamedExpert::Slot;
  /// Does one step with a slot.
  using Step = std::function<Status(Columns columns, Slot& slot)>;

  [[nodiscard]] Status run_rows(std::size_t first, std::size_t count);
  [[nodiscard]] Status for_each_step(std::size_t outputs, std::size_t width, const Step& step);
  [[nodiscard]] Status make_hidden(Columns columns, Slot& slot) const;
  void finish_hidden(Columns columns, std::size_t row, std::size_t rows, Slot& slot) const;
  [[nodiscard]] Status make_output(Columns columns, Slot& slot) const;
  /// The present rows in `format`; converted into `to` where they are not yet.
  [[nodiscard]] std::vector<const void*> input_rows(RowFormat format,
                                                    std::unique_ptr<std::byte[]>& to) const;

  const Multiplier* multiplier_;
  const compute::ExpertsJob* job_;
  const compute::ExpertBatch* batch_;
  compute::Executor* executor_;
  const StreamedExpert* expert_;
  std::size_t scratch_bytes_max_;
  RowFormat hidden_format_;
  std::size_t hidden_row_bytes_;
  // Of the present rows
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::vector<const void*> gate_rows_;
  std::vector<const void*> up_rows_;
  std::vector<const void*> hidden_rows_;
  std::unique_ptr<std::byte[]> hidden_;
};

}  // namespace tenzro::kernels
