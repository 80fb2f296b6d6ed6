#include "tenzro/kernels/cpu.hpp"

namespace tenzro::kernels {

Base64Kernels base64_kernels(Isa /*isa*/) {
  return scalar_base64_kernels();
}

}  // namespace tenzro::kernels
