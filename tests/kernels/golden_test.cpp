// The backend against dots of weights and activations that another implementation encoded.
#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "tenzro/tensor/block.hpp"

#include "kernels/cpu/backend/cpu_backend.hpp"
#include "unit/tensor/golden_file.hpp"

namespace tenzro::kernels {
namespace {

struct Case {
  const char* name;  ///< as the golden data spells it
  tensor::WeightType type;
  /// Additions of the f32 accumulator a block of 32, and how much larger than the summed products
  /// their terms may be: Q4_K adds d*q and dmin*m apart.
  double additions;
  double terms;
};

constexpr Case kCases[] = {{"Q8_0", tensor::WeightType::q8_0, 1.0, 1.0},
                           {"Q4_K", tensor::WeightType::q4_k, 2.0, 4.0},
                           {"Q6_K", tensor::WeightType::q6_k, 1.0, 1.0}};

class GoldenDots : public ::testing::TestWithParam<std::tuple<Case, Isa>> {};

TEST_P(GoldenDots, AreReachedWithinTheRoundingOfTheAccumulator) {
  const auto arrays = tensor::test::read_golden_arrays("dot_goldens");
  const Isa isa = std::get<1>(GetParam());
  if (!is_available(isa)) GTEST_SKIP() << name_of(isa) << " is not available here";
  const Case& golden = std::get<0>(GetParam());
  CpuBackend backend(kernels_up_to(isa), std::size_t{1} << 20U);
  compute::SerialExecutor serial;
  for (const std::string length : {"n256", "n2048", "n7168"}) {
    const auto x = arrays.at(length + "/x").as<float>();
    const auto& weights = arrays.at(length + "/" + golden.name + "/w");
    const auto wanted = arrays.at(length + "/" + golden.name + "/dot_f64_x_q8_0").as<double>();
    const auto rows = static_cast<std::uint32_t>(weights.shape.at(0));
    const auto cols = static_cast<std::uint32_t>(x.size() / rows);
    const compute::MatrixView view{
        .type = golden.type, .rows = rows, .cols = cols, .bytes = weights.bytes};
    const auto matrix = backend.upload_matrix(view, {}, serial);
    ASSERT_TRUE(matrix.has_value());
    std::vector<float> out(std::size_t{rows} * rows);
    const compute::MatmulJob job{.profile = compute::Profile::exact,
                                 .matrix = matrix->get(),
                                 .input = x.data(),
                                 .input_rows = rows,
                                 .out = out.data()};
    ASSERT_TRUE(backend.run_matmul(job, serial).has_value());
    std::vector<float> decoded(cols);
    for (std::size_t i = 0; i < out.size(); ++i) {
      tensor::decode_row(view.type, view.row(static_cast<std::uint32_t>(i % rows)), decoded);
      double magnitude = 0.0;
      for (std::size_t k = 0; k < cols; ++k) {
        magnitude += std::fabs(static_cast<double>(decoded[k]) * x[i / rows * cols + k]);
      }
      const double steps = golden.additions * cols / 32.0 + 2.0;
      EXPECT_NEAR(out[i], wanted[i], steps * 0x1p-24 * golden.terms * magnitude)
          << length << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GoldenDots,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values(Isa::scalar, Isa::avx2, Isa::avx512,
                                                              Isa::avx512vnni, Isa::amx)),
                         [](const auto& dots) {
                           return std::string(std::get<0>(dots.param).name) + "_" +
                                  std::string(name_of(std::get<1>(dots.param)));
                         });

}  // namespace
}  // namespace tenzro::kernels
