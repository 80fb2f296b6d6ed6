#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::tensor {

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t size : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + ']';
}

}  // namespace tenzro::tensor
