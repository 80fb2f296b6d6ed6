#include "kernels/cpu/backend/weight_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tenzro::kernels {
namespace {

constexpr std::size_t kSizes[] = {
    1, 64, 4096, 256U << 10U, (2U << 20U) - 1, 2U << 20U, (5U << 20U) + 64};

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

std::size_t resident_pages(const WeightMemory& memory) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = std::bit_cast<std::uintptr_t>(memory.data()) / page * page;
  const std::uintptr_t end = std::bit_cast<std::uintptr_t>(memory.data()) + memory.size();
  std::vector<unsigned char> pages((end - begin + page - 1) / page);
  if (mincore(std::bit_cast<void*>(begin), end - begin, pages.data()) != 0) return 0;
  return static_cast<std::size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1U) != 0; }));
}

TEST(WeightMemory, BlocksStandSideBySideAndAreGivenBackAlone) {
  constexpr std::size_t kSize = (3U << 20U) + 64;
  WeightMemory first(kSize);
  WeightMemory second(kSize);
  WeightMemory third(kSize);
  const auto are_neighbours = [&] {
    return second.data() == first.data() + kSize && third.data() == second.data() + kSize;
  };
  if (!are_neighbours()) {  // a mapping ended here; the next one has room for three
    first = WeightMemory(kSize);
    second = WeightMemory(kSize);
    third = WeightMemory(kSize);
  }
  ASSERT_TRUE(are_neighbours());
  for (const WeightMemory* memory : {&first, &second, &third})
    std::fill_n(memory->data(), kSize, std::uint8_t{0xFF});
  const std::uint8_t* place = second.data();
  const std::size_t before = resident_pages(second);
  second = WeightMemory();
  ASSERT_NE(third.data(), nullptr);
  EXPECT_TRUE(std::all_of(first.data(), first.data() + kSize, [](auto b) { return b == 0xFF; }));
  EXPECT_TRUE(std::all_of(third.data(), third.data() + kSize, [](auto b) { return b == 0xFF; }));
  EXPECT_EQ(place[kSize / 2], 0);  // the mapping still stands; the page there is a fresh one
  EXPECT_GT(before, kSize / 4096 / 2);
}

TEST(WeightMemory, APlaceIsNotUsedAgain) {
  constexpr std::size_t kSize = 1U << 20U;
  const WeightMemory keeper(kSize);
  std::uint8_t* place = nullptr;
  {
    const WeightMemory memory(kSize);
    place = memory.data();
    std::fill_n(memory.data(), kSize, std::uint8_t{0xFF});
  }
  const WeightMemory other(kSize);
  EXPECT_NE(other.data(), place);
  EXPECT_TRUE(std::all_of(other.data(), other.data() + kSize, [](auto b) { return b == 0; }));
}

TEST(WeightMemory, ABlockLargerThanAMappingHasOneOfItsOwn) {
  constexpr std::size_t kSize = (300U << 20U) + 64;
  const WeightMemory memory(kSize);
  ASSERT_NE(memory.data(), nullptr);
  memory.data()[kSize - 1] = 1;
  EXPECT_EQ(memory.data()[0], 0);
}

TEST(WeightMemory, SaysNoInsteadOfEndingTheProcess) {
  EXPECT_EQ(WeightMemory(SIZE_MAX).data(), nullptr);
  EXPECT_EQ(WeightMemory(SIZE_MAX / 2).data(), nullptr);
  EXPECT_EQ(WeightMemory(0).data(), nullptr);
}

}  // namespace
}  // namespace tenzro::kernels
