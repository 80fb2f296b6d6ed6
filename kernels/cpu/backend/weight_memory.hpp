#pragma once
/// \file
/// Memory for packed weights: zero bytes at first, 64-byte aligned, given back to the system whole.
///
/// Blocks of 2 MiB and more are mapped on their own, so that unloading an expert really frees what
/// it held, and stand on huge pages where the system has them: weights are read from end to end,
/// and one row from memory draws 27 instead of 23 GB/s so (one core, Q8_0). Only whole huge pages
/// are asked for, so that no more is resident than was asked.
/// Thread: any; the bytes are the user's business.
#include <cstddef>
#include <cstdint>

namespace tenzro::kernels {

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
  void map();

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  void* mapping_ = nullptr;  ///< null where `data_` is from the heap
  std::size_t mapping_bytes_ = 0;
};

}  // namespace tenzro::kernels
