#include "kernels/cpu/matmul/scalar_support.hpp"

extern "C" void tz_f16_matmul_m1n1__scalar(const TzMatmul* job) {
  for (std::size_t row = 0; row < job->rows; ++row) {
    const float* x = static_cast<const float*>(job->x[row]);
    for (std::size_t n = 0; n < job->cols; ++n) {
      const std::uint8_t* panel = job->weights + n / kPanel * job->panel_bytes;
      const std::size_t lane = n % kPanel;
      float sum = 0.0F;
      for (std::size_t k = 0; k < job->k; ++k) {
        const float w = widen_f16(load_u16(panel + (k * kPanel + lane) * 2));
        sum = __builtin_fmaf(w, x[k], sum);
      }
      store(job, row, n, sum);
    }
  }
}
