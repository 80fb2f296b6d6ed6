#pragma once
/// \file
/// Memory for packed weights: zero bytes at first, 64-byte aligned, given back to the system whole.
///
/// Blocks of 256 KiB and more stand side by side in large mappings, on huge pages where the system
/// has them: weights are read from end to end, and an expert of 5 MiB alone would have its last
/// 0.8 MiB, of 3 MiB its last 1, on small ones (one row of Q8_0 reads 29 instead of 27 GB/s so).
/// Rules
///  - A block given back is no longer resident, but for a part of a page at each end; its place is
///    not used again, so a block is always fresh. A mapping goes with its last block. What remains
///    of it until then is address space.
///  - The huge page that the last block of a mapping ends in is resident whole: less than 2 MiB
///    beyond what was asked, a mapping of 256 MiB.
///  - Pages come from the memory node of the thread that packs into them, as Linux does by itself.
/// Thread: any; the bytes are the user's business.
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tenzro::kernels {

inline constexpr std::size_t kCacheLine = 64;

[[nodiscard]] constexpr std::size_t rounded_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

class WeightMemory {
 public:
  WeightMemory() = default;
  /// Null data() where there is no memory.
  explicit WeightMemory(std::size_t size);
  ~WeightMemory();
  WeightMemory(WeightMemory&& other) noexcept;
  WeightMemory& operator=(WeightMemory&& other) noexcept;
  WeightMemory(const WeightMemory&) = delete;
  WeightMemory& operator=(const WeightMemory&) = delete;

  [[nodiscard]] std::uint8_t* data() const { return data_; }

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  class Mapping;

  static std::shared_ptr<Mapping> mapping_for(std::size_t size, std::uint8_t** data);

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<Mapping> mapping_;  ///< null where `data_` is from the heap
};

}  // namespace tenzro::kernels
