#include "kernels/cpu/backend/packed_expert.hpp"

#include <algorithm>

#include "tenzro/base/bytes.hpp"

#include "kernels/cpu/backend/streamed_expert.hpp"

namespace tenzro::kernels {
namespace {

Status check_bias(std::span<const float> bias, std::uint32_t rows, std::string_view name) {
  if (bias.empty() || bias.size() == rows) return {};
  return fail(ErrorCode::runtime, std::string(name),
              std::to_string(bias.size()) + " values for " + std::to_string(rows) + " outputs");
}

Status check_projection(const compute::MatrixView& matrix, std::span<const float> bias,
                        std::string_view name) {
  if (auto checked = check_matrix(matrix, std::string(name) + ".weight"); !checked) return checked;
  return check_bias(bias, matrix.rows, std::string(name) + ".bias");
}

/// The same where the bytes are in a source.
Status check_streamed(const compute::MatrixView& matrix, std::span<const float> bias,
                      const compute::WeightSource& source, std::uint64_t begin,
                      std::string_view name) {
  const std::string where = std::string(name) + ".weight";
  if (auto checked = check_shape_of(matrix, where); !checked) return checked;
  const std::uint64_t size = source.size_bytes();
  const auto bytes = checked_mul(matrix.rows, tensor::row_bytes(matrix.type, matrix.cols));
  if (!bytes || begin > size || *bytes > size - begin)
    return fail(ErrorCode::runtime, where, "is not inside its source");
  return check_bias(bias, matrix.rows, std::string(name) + ".bias");
}

Status check_shape(const compute::MatrixView& matrix, const compute::ExpertView& expert,
                   std::string_view name) {
  if (matrix.rows == expert.d_ff() && matrix.cols == expert.d_model()) return {};
  return fail(ErrorCode::runtime, std::string(name),
              std::to_string(matrix.rows) + " x " + std::to_string(matrix.cols) +
                  " does not fit a down_proj of " + std::to_string(expert.d_model()) + " x " +
                  std::to_string(expert.d_ff()));
}

/// More at a time reads no faster, and where bytes are still coming it is what is left to do after
/// the last of them.
constexpr std::size_t kReadBytesMax = std::size_t{256} << 10U;

/// Least that is read at a time where an expert is packed as it is read: a panel of any matrix.
std::size_t read_bytes_min(const compute::ExpertView& expert) {
  const auto panel = [](const compute::MatrixView& matrix) {
    return std::min<std::size_t>(kPanelOutputs, matrix.rows) *
           tensor::row_bytes(matrix.type, matrix.cols);
  };
  const std::size_t inward = std::max(panel(expert.up), expert.gate ? panel(*expert.gate) : 0);
  return std::max(inward, panel(expert.down));
}

/// Packs matrices whose bytes are in a source, some panels at a time.
class SourcePacker {
 public:
  SourcePacker(const compute::WeightSource& source, std::size_t bytes, compute::Executor& executor)
      : source_(&source), executor_(&executor), bytes_max_(bytes) {}

  Status pack(const compute::MatrixView& matrix, std::span<const float> bias, std::uint64_t begin,
              std::uint8_t* to, PackedMatrix& packed) {
    const std::size_t row_bytes = tensor::row_bytes(matrix.type, matrix.cols);
    const std::size_t stride = panel_bytes(matrix.type, matrix.cols);
    const std::size_t fitting = bytes_max_ / row_bytes;
    const std::size_t step =
        fitting >= matrix.rows ? matrix.rows : fitting / kPanelOutputs * kPanelOutputs;
    for (std::size_t first = 0; first < matrix.rows; first += step) {
      const std::size_t rows = std::min<std::size_t>(step, matrix.rows - first);
      const auto bytes = source_->view(begin + first * row_bytes, rows * row_bytes, raw_);
      if (!bytes) return tl::unexpected<Error>(bytes.error());
      const compute::MatrixView some{.type = matrix.type,
                                     .rows = static_cast<std::uint32_t>(rows),
                                     .cols = matrix.cols,
                                     .bytes = *bytes};
      std::uint8_t* panels = to + first / kPanelOutputs * stride;
      executor_->parallel_for((rows + kPanelOutputs - 1) / kPanelOutputs, [&](std::size_t panel) {
        pack_panel(some, panel, panels + panel * stride);
      });
    }
    packed = packed_matrix(matrix, bias, to);
    return {};
  }

 private:
  const compute::WeightSource* source_;
  compute::Executor* executor_;
  std::size_t bytes_max_;
  std::vector<std::byte> raw_;
};

/// Of all three matrices.
std::size_t packed_bytes_of(const compute::ExpertView& expert) {
  return (expert.gate ? packed_bytes(*expert.gate) : 0) + packed_bytes(expert.up) +
         packed_bytes(expert.down);
}

/// What packing it as it is read takes at least.
std::size_t read_memory_min(const compute::ExpertView& expert) {
  return packed_bytes_of(expert) + bias_bytes(expert) + read_bytes_min(expert);
}

tl::unexpected<Error> no_memory(std::size_t bytes) {
  return fail(ErrorCode::no_space, "weights", "no memory for " + std::to_string(bytes) + " bytes");
}

}  // namespace

std::size_t PackedExpert::bytes() const {
  return up.bytes() + down.bytes() + (gate ? gate->bytes() : 0);
}

Status check_expert(const compute::ExpertView& expert) {
  const bool wants_gate = expert.spec.activation != compute::Activation::relu2;
  if (expert.gate.has_value() != wants_gate) {
    return fail(ErrorCode::runtime, "gate_proj.weight",
                wants_gate ? "is missing" : "has no place beside relu2");
  }
  const auto check = [&expert](const compute::MatrixView& matrix, std::span<const float> bias,
                               std::uint64_t begin, std::string_view name) {
    if (!expert.stream) return check_projection(matrix, bias, name);
    return check_streamed(matrix, bias, *expert.stream->source, begin, name);
  };
  const compute::WeightStream at = expert.stream.value_or(compute::WeightStream{});
  if (auto checked = check(expert.down, expert.down_bias, at.down_begin, "down_proj"); !checked)
    return checked;
  if (auto checked = check(expert.up, expert.up_bias, at.up_begin, "up_proj"); !checked)
    return checked;
  if (auto checked = check_shape(expert.up, expert, "up_proj.weight"); !checked) return checked;
  if (!expert.gate) {
    if (expert.gate_bias.empty()) return {};
    return fail(ErrorCode::runtime, "gate_proj.bias", "has no place beside relu2");
  }
  if (auto checked = check(*expert.gate, expert.gate_bias, at.gate_begin, "gate_proj"); !checked)
    return checked;
  return check_shape(*expert.gate, expert, "gate_proj.weight");
}

Result<compute::ExpertMemory> packed_memory_of(const compute::ExpertView& expert) {
  if (auto checked = check_expert(expert); !checked) return fail(checked.error());
  return compute::ExpertMemory{.held_bytes = packed_bytes_of(expert) + bias_bytes(expert),
                               .stream_bytes_min = std::min<std::uint64_t>(
                                   read_memory_min(expert), StreamedExpert::least_bytes(expert))};
}

Result<std::shared_ptr<const PackedExpert>> pack_expert(const compute::ExpertView& expert,
                                                        compute::Executor& executor) {
  if (auto checked = check_expert(expert); !checked) return fail(checked.error());
  auto packed = std::make_shared<PackedExpert>();
  packed->spec = expert.spec;
  const std::size_t gate_bytes = expert.gate ? packed_bytes(*expert.gate) : 0;
  const std::size_t up_bytes = packed_bytes(expert.up);
  packed->memory = WeightMemory(packed_bytes_of(expert));
  std::uint8_t* to = packed->memory.data();
  if (to == nullptr) return no_memory(packed->memory.size());
  if (expert.gate) packed->gate = pack_matrix(*expert.gate, expert.gate_bias, to, executor);
  packed->up = pack_matrix(expert.up, expert.up_bias, to + gate_bytes, executor);
  packed->down = pack_matrix(expert.down, expert.down_bias, to + gate_bytes + up_bytes, executor);
  return packed;
}

Result<std::shared_ptr<const compute::ResidentExpert>> open_expert(
    const compute::ExpertView& expert, compute::Executor& executor) {
  if (auto checked = check_expert(expert); !checked) return fail(checked.error());
  const compute::WeightStream& stream = *expert.stream;
  const std::size_t gate_bytes = expert.gate ? packed_bytes(*expert.gate) : 0;
  const std::size_t up_bytes = packed_bytes(expert.up);
  const std::size_t all = packed_bytes_of(expert);
  const std::size_t least = read_memory_min(expert);
  if (least > stream.memory_bytes_max) {
    auto streamed = StreamedExpert::make(expert, executor.concurrency());
    if (!streamed) return fail(streamed.error());
    return std::shared_ptr<const compute::ResidentExpert>(std::move(*streamed));
  }
  auto packed = std::make_shared<PackedExpert>();
  packed->spec = expert.spec;
  packed->memory = WeightMemory(all);
  std::uint8_t* to = packed->memory.data();
  if (to == nullptr) return no_memory(all);
  const std::uint64_t room = stream.memory_bytes_max - least;
  const std::size_t raw =
      std::max(read_bytes_min(expert),
               static_cast<std::size_t>(std::min<std::uint64_t>(room, kReadBytesMax)));
  SourcePacker packer(*stream.source, raw, executor);

  struct Part {
    const compute::MatrixView* matrix;
    std::span<const float> bias;
    std::uint64_t begin;
    std::uint8_t* to;
    PackedMatrix* packed;
  };

  std::vector<Part> parts{
      {&expert.up, expert.up_bias, stream.up_begin, to + gate_bytes, &packed->up},
      {&expert.down, expert.down_bias, stream.down_begin, to + gate_bytes + up_bytes,
       &packed->down}};
  if (expert.gate) {
    packed->gate.emplace();
    parts.push_back({&*expert.gate, expert.gate_bias, stream.gate_begin, to, &*packed->gate});
  }
  // In the order of the source: so they come.
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
  for (const Part& part : parts) {
    Status read = packer.pack(*part.matrix, part.bias, part.begin, part.to, *part.packed);
    if (!read) return fail(read.error());
  }
  return std::shared_ptr<const compute::ResidentExpert>(std::move(packed));
}

Result<std::shared_ptr<const PackedRouter>> pack_router(const compute::MatrixView& matrix,
                                                        std::span<const float> bias,
                                                        compute::Executor& executor) {
  if (auto checked = check_projection(matrix, bias, "matrix"); !checked)
    return fail(checked.error());
  auto packed = std::make_shared<PackedRouter>();
  packed->memory = WeightMemory(packed_bytes(matrix));
  if (packed->memory.data() == nullptr) return no_memory(packed->memory.size());
  packed->matrix = pack_matrix(matrix, bias, packed->memory.data(), executor);
  return packed;
}

}  // namespace tenzro::kernels
