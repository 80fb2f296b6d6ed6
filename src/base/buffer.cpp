#include "tenzro/base/buffer.hpp"

#include <cstring>
#include <new>

#include "tenzro/base/assert.hpp"

namespace tenzro {
namespace {
constexpr std::align_val_t kAlignment{64};
}  // namespace

BufferRef BufferRef::allocate(std::size_t size) {
  if (size == 0) return {};
  auto* data = static_cast<std::byte*>(::operator new(size, kAlignment));
  std::shared_ptr<std::byte> owner(data, [](std::byte* p) { ::operator delete(p, kAlignment); });
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
