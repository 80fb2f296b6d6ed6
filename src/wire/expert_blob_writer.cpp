#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/wire/expert_blob.hpp"

#include "ffn_spec.hpp"
#include "tensor_writer.hpp"

namespace tenzro::wire {
namespace {

void check(const compute::ExpertView& view) {
  const auto fits = [](std::span<const float> bias, std::uint32_t size) {
    return bias.empty() || bias.size() == size;
  };
  TENZRO_ASSERT(view.gate.has_value() == (view.spec.activation != compute::Activation::relu2));
  TENZRO_ASSERT(view.up.rows == view.d_ff());
  TENZRO_ASSERT(view.up.cols == view.d_model());
  TENZRO_ASSERT(!view.gate || view.gate->rows == view.d_ff());
  TENZRO_ASSERT(!view.gate || view.gate->cols == view.d_model());
  TENZRO_ASSERT(view.gate || view.gate_bias.empty());
  TENZRO_ASSERT(fits(view.gate_bias, view.d_ff()));
  TENZRO_ASSERT(fits(view.up_bias, view.d_ff()));
  TENZRO_ASSERT(fits(view.down_bias, view.d_model()));
}

}  // namespace

std::vector<std::byte> make_expert_blob(const compute::ExpertView& view) {
  check(view);
  TensorWriter writer;
  if (view.gate) writer.matrix("gate_proj.weight", *view.gate);
  writer.matrix("up_proj.weight", view.up);
  writer.matrix("down_proj.weight", view.down);
  writer.vector("gate_proj.bias", view.gate_bias);
  writer.vector("up_proj.bias", view.up_bias);
  writer.vector("down_proj.bias", view.down_bias);
  if (std::optional<std::string> spec = ffn_spec_text(view.spec)) {
    writer.metadata(kFfnKey, std::move(*spec));
  }
  return writer.file();
}

}  // namespace tenzro::wire
