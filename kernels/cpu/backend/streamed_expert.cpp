#include "kernels/cpu/backend/streamed_expert.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/cpu/backend/multiplier.hpp"
#include "kernels/cpu/backend/weight_memory.hpp"

namespace tenzro::kernels {
namespace {

/// More for one thread reads no faster; less is many small reads.
constexpr std::size_t kSlotBytesMax = std::size_t{2} << 20U;
constexpr std::size_t kSlotsMax = 16;
constexpr std::size_t kHiddenOutputsMin = kBlock;
constexpr std::size_t kHiddenOutputsMax = 64 * kBlock;

std::size_t step_within(std::size_t outputs, std::size_t step, std::size_t multiple) {
  return std::min(outputs, std::max(multiple, step / multiple * multiple));
}

StreamedMatrix streamed_matrix(const compute::MatrixView& matrix, std::uint64_t begin) {
  return {
      .type = matrix.type, .rows = matrix.rows, .cols = matrix.cols, .begin = begin, .bias = {}};
}

/// To whole panels.
std::vector<float> padded(std::span<const float> bias) {
  std::vector<float> values;
  values.reserve(rounded_up(bias.size(), kPanelOutputs));
  values.assign(bias.begin(), bias.end());
  values.resize(rounded_up(bias.size(), kPanelOutputs), 0.0F);
  return values;
}

}  // namespace

std::size_t StreamedMatrix::panels_bytes(std::size_t outputs) const {
  return (outputs + kPanelOutputs - 1) / kPanelOutputs * kernels::panel_bytes(type, cols);
}

std::size_t bias_bytes(const compute::ExpertView& expert) {
  std::size_t values = 0;
  for (const auto bias : {expert.gate_bias, expert.up_bias, expert.down_bias})
    values += rounded_up(bias.size(), kPanelOutputs);
  return values * sizeof(float);
}

Result<PackedMatrix> read_slice(const StreamedMatrix& matrix, std::size_t first, std::size_t count,
                                const compute::WeightSource& source, std::span<std::byte> raw,
                                std::uint8_t* panels) {
  const std::size_t row_bytes = matrix.row_bytes();
  const std::span<std::byte> bytes = raw.first(count * row_bytes);
  if (Status read = source.read(matrix.begin + first * row_bytes, bytes); !read)
    return fail(read.error());
  const compute::MatrixView rows{.type = matrix.type,
                                 .rows = static_cast<std::uint32_t>(count),
                                 .cols = static_cast<std::uint32_t>(matrix.cols),
                                 .bytes = bytes};
  const std::size_t stride = kernels::panel_bytes(matrix.type, matrix.cols);
  const std::size_t size = matrix.panels_bytes(count);
  std::memset(panels, 0, size);
  for (std::size_t panel = 0; panel * stride < size; ++panel)
    pack_panel(rows, panel, panels + panel * stride);
  PackedMatrix packed{.type = matrix.type,
                      .rows = count,
                      .cols = matrix.cols,
                      .panel_bytes = stride,
                      .panels = {panels, size},
                      .bias = {}};
  if (!matrix.bias.empty()) {
    const auto from = matrix.bias.begin() + static_cast<std::ptrdiff_t>(first);
    packed.bias.assign(from, from + static_cast<std::ptrdiff_t>(rounded_up(count, kPanelOutputs)));
  }
  return packed;
}

std::size_t StreamedExpert::raw_bytes() const {
  const std::size_t inward = std::max(gate ? gate->row_bytes() : 0, up.row_bytes());
  return rounded_up(std::max(steps.hidden * inward, steps.output * down.row_bytes()), kCacheLine);
}

std::size_t StreamedExpert::panel_bytes() const {
  const std::size_t inward =
      up.panels_bytes(steps.hidden) + (gate ? gate->panels_bytes(steps.hidden) : 0);
  return std::max(inward, down.panels_bytes(steps.output));
}

std::size_t StreamedExpert::values_bytes() const {
  return rounded_up(kRowTile * steps.hidden * sizeof(float), kCacheLine);
}

std::size_t StreamedExpert::slot_bytes() const {
  return raw_bytes() + panel_bytes() + 2 * values_bytes();
}

StreamedExpert::Slot StreamedExpert::make_slot() const {
  Slot slot{.memory = make_lines(slot_bytes()), .raw = {}};
  std::byte* at = slot.memory[0].bytes;
  slot.raw = {at, raw_bytes()};
  at += raw_bytes();
  slot.up = static_cast<std::uint8_t*>(static_cast<void*>(at));
  slot.gate = slot.up + up.panels_bytes(steps.hidden);
  at += panel_bytes();
  slot.up_values = static_cast<float*>(static_cast<void*>(at));
  at += values_bytes();
  slot.gate_values = static_cast<float*>(static_cast<void*>(at));
  return slot;
}

void StreamedExpert::take_shapes(const compute::ExpertView& expert,
                                 const compute::WeightStream& stream) {
  if (expert.gate) gate = streamed_matrix(*expert.gate, stream.gate_begin);
  up = streamed_matrix(expert.up, stream.up_begin);
  down = streamed_matrix(expert.down, stream.down_begin);
  steps = {.hidden = step_within(d_ff(), 0, kHiddenOutputsMin),
           .output = step_within(d_model(), 0, kPanelOutputs)};
}

std::uint64_t StreamedExpert::least_bytes(const compute::ExpertView& expert) {
  StreamedExpert least;
  least.take_shapes(expert, compute::WeightStream{});
  return least.slot_bytes() + kernels::bias_bytes(expert);
}

Result<std::shared_ptr<const StreamedExpert>> StreamedExpert::make(
    const compute::ExpertView& expert, std::size_t threads) {
  auto made = std::make_shared<StreamedExpert>();
  const compute::WeightStream& stream = *expert.stream;
  made->spec = expert.spec;
  made->source = stream.source;
  made->take_shapes(expert, stream);
  const std::size_t biases = bias_bytes(expert);
  const std::size_t least = made->slot_bytes();
  const std::uint64_t most = stream.memory_bytes_max;
  if (biases + least > most) {
    return fail(ErrorCode::no_space, "weights",
                "an expert read by slices needs " + std::to_string(biases + least) +
                    " bytes of memory, and may have " + std::to_string(most));
  }
  if (made->gate) made->gate->bias = padded(expert.gate_bias);
  made->up.bias = padded(expert.up_bias);
  made->down.bias = padded(expert.down_bias);
  const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(most - biases, SIZE_MAX));
  const std::size_t slots = std::clamp<std::size_t>(room / std::max(least, kSlotBytesMax), 1,
                                                    std::min(threads, kSlotsMax));
  // Both halves of a slot grow alike: from the least to as much as its share takes.
  const std::size_t share = std::max(least, std::min(room / slots, kSlotBytesMax));
  const std::size_t times = share / least;
  const StreamedExpert::Steps small = made->steps;
  made->steps = {
      .hidden = step_within(made->d_ff(), std::min(small.hidden * times, kHiddenOutputsMax),
                            kHiddenOutputsMin),
      .output = step_within(made->d_model(), small.output * times, kPanelOutputs)};
  if (made->slot_bytes() > share) made->steps = small;  // rounding to panels
  for (std::size_t i = 0; i < slots; ++i) made->slots_.push_back(made->make_slot());
  made->bytes_ = slots * made->slot_bytes() + biases;
  return std::shared_ptr<const StreamedExpert>(std::move(made));
}

}  // namespace tenzro::kernels
