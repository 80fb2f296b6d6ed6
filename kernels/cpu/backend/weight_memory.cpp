#include "kernels/cpu/backend/weight_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "tenzro/base/huge_page.hpp"

namespace tenzro::kernels {
namespace {

constexpr std::size_t kMappedMin = std::size_t{256} << 10U;
constexpr std::size_t kMappingBytes = std::size_t{256} << 20U;
constexpr std::size_t kSizeMax = SIZE_MAX / 4;  // far beyond any memory; sums below cannot wrap

}  // namespace

/// Address space that blocks are cut from, one behind the other.
class WeightMemory::Mapping {
 public:
  explicit Mapping(std::size_t size) {
    mapped_bytes_ = size + kHugePage;  // room to begin on a huge page's border
    void* mapping = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return;
    mapping_ = mapping;
    void* aligned = mapping;
    std::size_t room = mapped_bytes_;
    std::align(kHugePage, size, aligned, room);
    begin_ = static_cast<std::uint8_t*>(aligned);
    size_ = size;
    // Advice only: a system without huge pages serves small ones.
    static_cast<void>(madvise(aligned, size, MADV_HUGEPAGE));
  }

  ~Mapping() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
  }

  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// Null where there is no room left.
  std::uint8_t* cut(std::size_t size) {
    if (size > size_ - used_) return nullptr;
    return begin_ + std::exchange(used_, used_ + rounded_up(size, kCacheLine));
  }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::uint8_t* begin_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

std::shared_ptr<WeightMemory::Mapping> WeightMemory::mapping_for(std::size_t size,
                                                                 std::uint8_t** data) {
  static std::mutex mutex;
  static std::shared_ptr<Mapping> filling;  // the one that blocks are being cut from
  const std::lock_guard lock(mutex);
  if (filling != nullptr) *data = filling->cut(size);
  if (*data == nullptr) {
    filling = std::make_shared<Mapping>(std::max(kMappingBytes, rounded_up(size, kHugePage)));
    *data = filling->cut(size);
  }
  return filling;
}

WeightMemory::WeightMemory(std::size_t size) : size_(size) {
  if (size == 0 || size > kSizeMax) return;
  if (size >= kMappedMin) {
    mapping_ = mapping_for(size, &data_);
    if (data_ == nullptr) mapping_.reset();
    return;
  }
  data_ = static_cast<std::uint8_t*>(std::aligned_alloc(kCacheLine, rounded_up(size, kCacheLine)));
  if (data_ != nullptr) std::memset(data_, 0, size);
}

WeightMemory::~WeightMemory() {
  if (mapping_ == nullptr) {
    std::free(data_);
    return;
  }
  // Whole pages only: those at the ends are the neighbours' too.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t before = (page - std::bit_cast<std::uintptr_t>(data_) % page) % page;
  if (size_ < before + page) return;
  static_cast<void>(madvise(data_ + before, (size_ - before) / page * page, MADV_DONTNEED));
}

WeightMemory::WeightMemory(WeightMemory&& other) noexcept {
  *this = std::move(other);
}

WeightMemory& WeightMemory::operator=(WeightMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  return *this;
}

}  // namespace tenzro::kernels
