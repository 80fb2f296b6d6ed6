#include "kernels/cpu/backend/packed_expert.hpp"

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

Status check_shape(const compute::MatrixView& matrix, const compute::ExpertView& expert,
                   std::string_view name) {
  if (matrix.rows == expert.d_ff() && matrix.cols == expert.d_model()) return {};
  return fail(ErrorCode::runtime, std::string(name),
              std::to_string(matrix.rows) + " x " + std::to_string(matrix.cols) +
                  " does not fit a down_proj of " + std::to_string(expert.d_model()) + " x " +
                  std::to_string(expert.d_ff()));
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
  if (auto checked = check_projection(expert.down, expert.down_bias, "down_proj"); !checked)
    return checked;
  if (auto checked = check_projection(expert.up, expert.up_bias, "up_proj"); !checked)
    return checked;
  if (auto checked = check_shape(expert.up, expert, "up_proj.weight"); !checked) return checked;
  if (!expert.gate) {
    if (expert.gate_bias.empty()) return {};
    return fail(ErrorCode::runtime, "gate_proj.bias", "has no place beside relu2");
  }
  if (auto checked = check_projection(*expert.gate, expert.gate_bias, "gate_proj"); !checked)
    return checked;
  return check_shape(*expert.gate, expert, "gate_proj.weight");
}

Result<std::shared_ptr<const PackedExpert>> pack_expert(const compute::ExpertView& expert,
                                                        compute::Executor& executor) {
  if (auto checked = check_expert(expert); !checked) return fail(checked.error());
  auto packed = std::make_shared<PackedExpert>();
  packed->spec = expert.spec;
  const std::size_t gate_bytes = expert.gate ? packed_bytes(*expert.gate) : 0;
  const std::size_t up_bytes = packed_bytes(expert.up);
  packed->memory = WeightMemory(gate_bytes + up_bytes + packed_bytes(expert.down));
  std::uint8_t* to = packed->memory.data();
  if (to == nullptr) return no_memory(packed->memory.size());
  if (expert.gate) packed->gate = pack_matrix(*expert.gate, expert.gate_bias, to, executor);
  packed->up = pack_matrix(expert.up, expert.up_bias, to + gate_bytes, executor);
  packed->down = pack_matrix(expert.down, expert.down_bias, to + gate_bytes + up_bytes, executor);
  return packed;
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
