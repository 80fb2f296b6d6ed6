#include "kernels/cpu/backend/weight_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

namespace tenzro::kernels {
namespace {

constexpr std::size_t kSizes[] = {1, 64, 4096, (2U << 20U) - 1, 2U << 20U, (5U << 20U) + 64};

TEST(WeightMemory, IsZeroAndAlignedAtEverySize) {
  for (const std::size_t size : kSizes) {
    const WeightMemory memory(size);
    ASSERT_NE(memory.data(), nullptr);
    EXPECT_EQ(memory.size(), size);
    EXPECT_EQ(std::bit_cast<std::uintptr_t>(memory.data()) % 64, 0U);
    EXPECT_TRUE(std::all_of(memory.data(), memory.data() + size,
                            [](std::uint8_t byte) { return byte == 0; }));
    std::fill_n(memory.data(), size, std::uint8_t{0xFF});
  }
}

TEST(WeightMemory, MovesWithItsBytes) {
  for (const std::size_t size : kSizes) {
    WeightMemory first(size);
    std::uint8_t* bytes = first.data();
    bytes[size - 1] = 7;
    WeightMemory second(std::move(first));
    WeightMemory third;
    third = std::move(second);
    EXPECT_EQ(third.data(), bytes);
    EXPECT_EQ(third.data()[size - 1], 7);
  }
}

TEST(WeightMemory, SaysNoInsteadOfEndingTheProcess) {
  EXPECT_EQ(WeightMemory(SIZE_MAX).data(), nullptr);
  EXPECT_EQ(WeightMemory(SIZE_MAX / 2).data(), nullptr);
  EXPECT_EQ(WeightMemory(0).data(), nullptr);
}

}  // namespace
}  // namespace tenzro::kernels
