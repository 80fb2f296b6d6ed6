#pragma once
/// \file
/// An expert too large to be held: what a run needs to read it by slices.
///
/// A slice is some output rows of a matrix, read from the source and packed into panels of its own;
/// what the kernels make of them are those outputs' bits, whatever the slices are. Slots of scratch
/// are made once and counted; as many threads as there are slots work at a time, so that one reads
/// while another multiplies.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tenzro/compute/backend.hpp"

#include "kernels/cpu/backend/packed_matrix.hpp"
#include "kernels/cpu/backend/tile_rows.hpp"

namespace tenzro::kernels {

/// A matrix in a source.
struct StreamedMatrix {
  tensor::WeightType type = tensor::WeightType::f32;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::uint64_t begin = 0;  ///< of its bytes in the source
  std::vector<float> bias;  ///< empty, or padded to whole panels

  /// Bytes of one output, as stored.
  [[nodiscard]] std::size_t row_bytes() const { return tensor::row_bytes(type, cols); }

  /// Bytes that `outputs` of them take packed.
  [[nodiscard]] std::size_t panels_bytes(std::size_t outputs) const;
};

/// Of all biases, padded to whole panels.
[[nodiscard]] std::size_t bias_bytes(const compute::ExpertView& expert);

/// Reads outputs [first, first + count) into `raw` and packs them into `panels`; first is a
/// multiple of kPanelOutputs. The result points into `panels`. Error: as the source's.
[[nodiscard]] Result<PackedMatrix> read_slice(const StreamedMatrix& matrix, std::size_t first,
                                              std::size_t count,
                                              const compute::WeightSource& source,
                                              std::span<std::byte> raw, std::uint8_t* panels);

class StreamedExpert final : public compute::ResidentExpert {
 public:
  /// Outputs of gate and up, and of down, that a slot takes at a time.
  struct Steps {
    std::size_t hidden = 0;  ///< a multiple of 32, or all
    std::size_t output = 0;  ///< a multiple of 16, or all
  };

  /// Scratch of one thread, all of it in one block.
  struct Slot {
    Lines memory;
    std::span<std::byte> raw;
    std::uint8_t* gate = nullptr;  ///< panels; those of down take the place of both
    std::uint8_t* up = nullptr;
    float* up_values = nullptr;  ///< kRowTile x Steps::hidden
    float* gate_values = nullptr;
  };

  /// Requires check_expert and a stream. Error: no_space, where its memory does not take a slot.
  [[nodiscard]] static Result<std::shared_ptr<const StreamedExpert>> make(
      const compute::ExpertView& expert, std::size_t threads);

  /// The least memory that it can be made with. Requires check_expert.
  [[nodiscard]] static std::uint64_t least_bytes(const compute::ExpertView& expert);

  [[nodiscard]] std::size_t bytes() const override { return bytes_; }

  [[nodiscard]] bool is_streamed() const override { return true; }

  [[nodiscard]] bool is_readable() const override { return !has_failed_; }

  void note_failure() const { has_failed_ = true; }

  compute::FfnSpec spec;
  std::optional<StreamedMatrix> gate;
  StreamedMatrix up;
  StreamedMatrix down;
  std::shared_ptr<const compute::WeightSource> source;
  Steps steps;

  [[nodiscard]] std::size_t d_model() const { return down.rows; }

  [[nodiscard]] std::size_t d_ff() const { return down.cols; }

  /// Held by the run whose scratch the slots are.
  [[nodiscard]] std::mutex& mutex() const { return mutex_; }

  [[nodiscard]] std::vector<Slot>& slots() const { return slots_; }

 private:
  /// Types and shapes, and the smallest steps; no biases.
  void take_shapes(const compute::ExpertView& expert, const compute::WeightStream& stream);
  [[nodiscard]] std::size_t raw_bytes() const;
  [[nodiscard]] std::size_t panel_bytes() const;
  [[nodiscard]] std::size_t values_bytes() const;
  [[nodiscard]] std::size_t slot_bytes() const;
  [[nodiscard]] Slot make_slot() const;

  mutable std::mutex mutex_;
  mutable std::vector<Slot> slots_;
  mutable std::atomic<bool> has_failed_{false};
  std::size_t bytes_ = 0;
};

}  // namespace tenzro::kernels
