// Every line of activation.inc against the scalar line bit for bit, and the scalar line against
// double.
#include <algorithm>
#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/cases.hpp"
#include "kernels/cpu/backend/kernel_table.hpp"
#include "support/reference_ffn.hpp"

namespace tenzro::kernels {
namespace {

using compute::Activation;

constexpr Activation kActivations[] = {Activation::silu,      Activation::silu_clamped,
                                       Activation::swigluoai, Activation::gelu_tanh,
                                       Activation::relu2,     Activation::situ};

/// Floats from every binade, both signs, and the values at which formulas break.
std::vector<float> sweep() {
  std::vector<float> values = {0.0F,      -0.0F,     INFINITY,   -INFINITY,      NAN,
                               -NAN,      7.0F,      -7.0F,      88.72F,         88.73F,
                               -87.33F,   -103.97F,  -104.0F,    104.5F,         0.34657F,
                               -0.34657F, 0x1p-149F, -0x1p-149F, 0x1.FFFFFEp127F};
  for (std::uint64_t bits = 0; bits <= UINT32_MAX; bits += 40'009) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (int i = -3000; i <= 3000; ++i) values.push_back(static_cast<float>(i) * 0.0371F);
  return values;
}

std::vector<float> activate(TzActivationFn run, const compute::FfnSpec& spec,
                            const std::vector<float>& gate, const std::vector<float>& up) {
  std::vector<float> out(up.size());
  const TzActivation job{.kind = static_cast<TzActivationKind>(spec.activation),
                         .limit = spec.limit,
                         .alpha = spec.alpha,
                         .beta = spec.beta,
                         .linear_beta = spec.linear_beta,
                         .gate = gate.data(),
                         .up = up.data(),
                         .out = out.data(),
                         .n = up.size()};
  run(&job);
  return out;
}

TzActivationFn scalar() {
  return kernels_up_to(Isa::scalar).activation.run;
}

class ActivationLine : public ::testing::TestWithParam<ActivationKernel> {
 protected:
  void SetUp() override {
    if (!is_available(GetParam().isa))
      GTEST_SKIP() << name_of(GetParam().isa) << " is not available here";
  }
};

TEST_P(ActivationLine, HasTheBitsOfTheScalarLineOverAllBinades) {
  const std::vector<float> values = sweep();
  std::vector<float> rotated = values;
  std::rotate(rotated.begin(), rotated.begin() + 4711, rotated.end());
  for (const Activation activation : kActivations) {
    const compute::FfnSpec spec{.activation = activation};
    for (const auto& [gate, up] : {std::pair(values, rotated), std::pair(rotated, values)}) {
      ASSERT_EQ(testing::first_difference(activate(scalar(), spec, gate, up),
                                          activate(GetParam().run, spec, gate, up)),
                "")
          << "activation " << static_cast<int>(activation);
    }
  }
}

TEST_P(ActivationLine, HandlesEveryTailAndWritesNoFurther) {
  Prng prng(1);
  const auto gate = testing::make_normal_rows(1, 48, prng);
  const auto up = testing::make_normal_rows(1, 48, prng);
  const auto whole = activate(scalar(), {}, gate, up);
  for (std::size_t n = 0; n <= 48; ++n) {
    std::vector<float> in_place = up;
    const TzActivation job{.kind = TzActivationKind::silu,
                           .limit = 0,
                           .alpha = 0,
                           .beta = 0,
                           .linear_beta = 0,
                           .gate = gate.data(),
                           .up = in_place.data(),
                           .out = in_place.data(),
                           .n = n};
    GetParam().run(&job);
    std::vector<float> expected = up;
    std::copy_n(whole.begin(), n, expected.begin());
    ASSERT_EQ(testing::first_difference(expected, in_place), "") << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ActivationLine,
                         ::testing::ValuesIn(activation_kernels().begin(),
                                             activation_kernels().end()),
                         [](const auto& line) { return std::string(line.param.name); });

/// Distance in units of the wanted value's last place; subnormal results have the place of the
/// smallest normal one.
double ulps(float found, double wanted) {
  const double place = std::ldexp(1.0, std::max(std::ilogb(wanted), -126) - 23);
  return std::fabs(static_cast<double>(found) - wanted) / place;
}

// silu errs by its exp (1.5 ulp), an addition, a division and two products (0.5 each): below 4 ulp.
TEST(Activation, SiluIsWithinFourUlpOfDouble) {
  double worst = 0.0;
  for (const float g : sweep()) {
    const double wanted = testing::reference_activation({}, g, 1.0);
    if (!std::isfinite(wanted) || !std::isfinite(static_cast<float>(wanted))) continue;
    // Subnormal exp has few bits, and the product with g (up to 104) magnifies their rounding.
    if (g < -87.0F) continue;
    worst = std::max(worst, ulps(activate(scalar(), {}, {g}, {1.0F})[0], wanted));
  }
  EXPECT_LE(worst, 4.0);
  EXPECT_GT(worst, 0.0);
}

// There the rounding of exp to the subnormals' step, 2^-150, is multiplied by |g| up to 104; the 4
// ulp remain.
TEST(Activation, SiluFadesThroughTheSubnormalsInsteadOfJumpingToZero) {
  for (float g = -87.0F; g > -103.0F; g -= 0.125F) {
    const double wanted = testing::reference_activation({}, g, 1.0);
    const double bound = 104 * 0x1p-150 + 4 * 0x1p-23 * std::fabs(wanted);
    EXPECT_NEAR(activate(scalar(), {}, {g}, {1.0F})[0], wanted, bound) << g;
  }
}

// With a gate of 60, tanh(gate) and sigmoid(gate) are 1, and SiTU is tanh(up). Its errors: expm1
// (1.5 ulp), an addition and a division; small arguments pass through the polynomial's first term
// alone.
TEST(Activation, TanhIsWithinThreeUlpOfDouble) {
  const compute::FfnSpec spec{
      .activation = Activation::situ, .limit = 0, .alpha = 0, .beta = 1.0F, .linear_beta = 1.0F};
  double worst = 0.0;
  for (const float u : sweep()) {
    if (!std::isfinite(u) || std::fabs(u) < 0x1p-126F) continue;
    worst = std::max(
        worst, ulps(activate(scalar(), spec, {60.0F}, {u})[0], std::tanh(static_cast<double>(u))));
  }
  EXPECT_LE(worst, 3.0);
}

// gelu and swigluoai round the argument of exp: an error of a few ulp there becomes |argument|
// times as much behind.
TEST(Activation, EveryKindIsWithinItsBoundOfDouble) {
  for (const Activation activation : kActivations) {
    const compute::FfnSpec spec{.activation = activation};
    for (float g = -30.0F; g < 30.0F; g += 0.0437F) {
      for (const float u : {-9.0F, -0.3F, 1.7F, 30.0F}) {
        const double wanted = testing::reference_activation(spec, g, u);
        if (std::fabs(wanted) < 0x1p-120) continue;
        const double argument = activation == Activation::gelu_tanh
                                    ? 1.6 * std::fabs(g) * (1.0 + 0.045 * g * g)
                                : activation == Activation::swigluoai ? 1.8 * std::fabs(g)
                                                                      : 0.0;
        const float found = activate(scalar(), spec, {g}, {u})[0];
        EXPECT_LE(ulps(found, wanted), 8.0 + 2.5 * argument)
            << static_cast<int>(activation) << " " << g << " " << u;
      }
    }
  }
}

TEST(Activation, LimitsAreReachedAndKept) {
  const auto at = [](Activation activation, float gate, float up) {
    return activate(scalar(), {.activation = activation, .limit = 7.0F}, {gate}, {up})[0];
  };
  for (const Activation activation : {Activation::silu_clamped, Activation::swigluoai}) {
    EXPECT_EQ(at(activation, 1e30F, 1e30F), at(activation, 7.0F, 7.0F));
    EXPECT_EQ(at(activation, INFINITY, -INFINITY), at(activation, 7.0F, -7.0F));
    EXPECT_TRUE(std::isnan(at(activation, NAN, 1.0F)));
    EXPECT_TRUE(std::isnan(at(activation, 1.0F, NAN)));
  }
}

TEST(Activation, NanReachesTheResultOfEveryKind) {
  for (const Activation activation : kActivations) {
    const compute::FfnSpec spec{.activation = activation};
    EXPECT_TRUE(std::isnan(activate(scalar(), spec, {1.0F}, {NAN})[0]));
    if (activation == Activation::relu2) continue;
    EXPECT_TRUE(std::isnan(activate(scalar(), spec, {NAN}, {1.0F})[0]));
  }
}

// An overflow upstream must not become a quiet zero: g times sigmoid(g) is inf·0 there, as IEEE
// says.
TEST(Activation, MinusInfinityIsNotTakenForALargeNegativeNumber) {
  EXPECT_TRUE(std::isnan(activate(scalar(), {}, {-INFINITY}, {1.0F})[0]));
  EXPECT_EQ(activate(scalar(), {}, {-1e30F}, {1.0F})[0], 0.0F);
  EXPECT_EQ(activate(scalar(), {}, {INFINITY}, {1.0F})[0], INFINITY);
}

}  // namespace
}  // namespace tenzro::kernels
