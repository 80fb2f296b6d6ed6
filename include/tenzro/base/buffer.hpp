#pragma once
/// \file
/// BufferRef: a ref-counted handle to a block of bytes outside the event stream.
///
/// Events and actions carry BufferRefs, never tensors: copying one copies a pointer. The bytes are
/// written by whoever allocated them before the handle is first shared, and never after: a shared
/// buffer is read-only by convention (`mutable_bytes` asserts sole ownership).
/// Alignment 64, so that kernels may use whole cache lines. Thread: any (the count is atomic).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace tenzro {

class BufferRef {
 public:
  BufferRef() = default;

  /// `size` uninitialised bytes. Aborts the process only where operator new would throw.
  [[nodiscard]] static BufferRef allocate(std::size_t size);
  [[nodiscard]] static BufferRef copy_of(std::span<const std::byte> bytes);
  [[nodiscard]] static BufferRef copy_of(std::string_view text);

  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] bool empty() const { return size_ == 0; }

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

  [[nodiscard]] std::string_view text() const;

  /// The bytes as little-endian values of T; trailing bytes short of one value are left out.
  /// Requires an offset that is aligned for T.
  template <typename T>
  [[nodiscard]] std::span<const T> as() const {
    return {static_cast<const T*>(static_cast<const void*>(data_)), size_ / sizeof(T)};
  }

  /// Requires that no other handle shares the bytes.
  [[nodiscard]] std::span<std::byte> mutable_bytes();

  template <typename T>
  [[nodiscard]] std::span<T> mutable_as() {
    const std::span<std::byte> all = mutable_bytes();
    return {static_cast<T*>(static_cast<void*>(all.data())), all.size() / sizeof(T)};
  }

  /// A handle to `size` bytes from `offset`; shares ownership. Requires offset + size <= size().
  [[nodiscard]] BufferRef slice(std::size_t offset, std::size_t size) const;

 private:
  BufferRef(std::shared_ptr<std::byte> owner, std::byte* data, std::size_t size)
      : owner_(std::move(owner)), data_(data), size_(size) {}

  std::shared_ptr<std::byte> owner_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tenzro
