// Compiled for AVX-512: nothing here but one product, so that no other code of that width gets into
// the program.
#include <Eigen/Core>

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

extern "C" void tz_bench_eigen(const float* x, const float* weights, float* out, long rows, long k,
                               long outputs) {
  Eigen::Map<Rows>(out, rows, outputs).noalias() =
      Eigen::Map<const Rows>(x, rows, k) * Eigen::Map<const Rows>(weights, outputs, k).transpose();
}
