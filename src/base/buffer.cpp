#include "tenzro/base/buffer.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/huge_page.hpp"

namespace tenzro {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::align_val_t kHugeAlignment{kHugePage};

/// Bytes of huge pages under a buffer, 0 for a small one. A blob of 5 MB on small pages costs 1,224
/// page faults, half as long as its reading. The last page is huge too where what is not used of it
/// is so little beside the buffer that it need not count: whoever pays for a buffer pays its size.
std::size_t huge_bytes(std::size_t size) {
  if (size > SIZE_MAX - kHugePage) return 0;
  const std::size_t whole = size / kHugePage * kHugePage;
  const std::size_t unused = whole + kHugePage - size;
  return unused <= size / 16 ? whole + kHugePage : whole;
}

}  // namespace

BufferRef BufferRef::allocate(std::size_t size) {
  if (size == 0) return {};
  const std::size_t huge = huge_bytes(size);
  if (huge == 0) {
    auto* data = static_cast<std::byte*>(::operator new(size, kAlignment));
    std::shared_ptr<std::byte> owner(data, [](std::byte* p) { ::operator delete(p, kAlignment); });
    return {std::move(owner), data, size};
  }
  auto* data = static_cast<std::byte*>(::operator new(std::max(huge, size), kHugeAlignment));
  // Advice only: a system without huge pages serves small ones.
  static_cast<void>(madvise(data, huge, MADV_HUGEPAGE));
  std::shared_ptr<std::byte> owner(data,
                                   [](std::byte* p) { ::operator delete(p, kHugeAlignment); });
  return {std::move(owner), data, size};
}

BufferRef BufferRef::copy_of(std::span<const std::byte> bytes) {
  BufferRef buffer = allocate(bytes.size());
  if (buffer.data_ != nullptr) std::memcpy(buffer.data_, bytes.data(), bytes.size());
  return buffer;
}

BufferRef BufferRef::copy_of(std::string_view text) {
  return copy_of(std::as_bytes(std::span(text)));
}

std::string_view BufferRef::text() const {
  return {static_cast<const char*>(static_cast<const void*>(data_)), size_};
}

std::span<std::byte> BufferRef::mutable_bytes() {
  TENZRO_ASSERT(owner_.use_count() <= 1);
  return {data_, size_};
}

BufferRef BufferRef::slice(std::size_t offset, std::size_t size) const {
  TENZRO_ASSERT(offset <= size_);
  TENZRO_ASSERT(size <= size_ - offset);
  return {owner_, data_ + offset, size};
}

}  // namespace tenzro
