#include "kernels/cpu/backend/weight_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include <sys/mman.h>

namespace tenzro::kernels {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20U;

}  // namespace

WeightMemory::WeightMemory(std::size_t size) : size_(size) {
  if (size == 0) return;
  if (size >= kHugePage) {
    map();
    return;
  }
  const std::size_t whole = (size + kCacheLine - 1) / kCacheLine * kCacheLine;
  data_ = static_cast<std::uint8_t*>(std::aligned_alloc(kCacheLine, whole));
  if (data_ != nullptr) std::memset(data_, 0, size);
}

void WeightMemory::map() {
  // Room to begin on a huge page's border; what is never touched is never resident.
  mapping_bytes_ = size_ + kHugePage;
  if (mapping_bytes_ < size_) return;
  void* mapping =
      mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = mapping;
  void* aligned = mapping;
  std::size_t room = mapping_bytes_;
  std::align(kHugePage, size_, aligned, room);
  data_ = static_cast<std::uint8_t*>(aligned);
  // Advice only: a system without huge pages serves small ones.
  static_cast<void>(madvise(aligned, size_ / kHugePage * kHugePage, MADV_HUGEPAGE));
}

WeightMemory::~WeightMemory() {
  if (mapping_ != nullptr) {
    munmap(mapping_, mapping_bytes_);
  } else {
    std::free(data_);
  }
}

WeightMemory::WeightMemory(WeightMemory&& other) noexcept {
  *this = std::move(other);
}

WeightMemory& WeightMemory::operator=(WeightMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

}  // namespace tenzro::kernels
