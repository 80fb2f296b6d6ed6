#pragma once
/// \file
/// ArrivingFile: a blob's file while one thread reads it, for others that work on what came.
///
/// `fill` is the reader's: it reads all, from the beginning, and tells those who wait. The bytes
/// are in one buffer, so a view copies nothing. Thread: `fill` from one, the rest from any.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/work/arriving.hpp"
#include "tenzro/work/job.hpp"

#include "file_reader.hpp"
#include "hash_follower.hpp"

namespace tenzro::store {

class ArrivingFile final : public work::ArrivingBlob {
 public:
  explicit ArrivingFile(FileReader file);

  /// Reads it, hashed by `beside` or here where that is wanted. Once.
  void fill(bool wants_hash, const Beside& beside);

  [[nodiscard]] std::uint64_t size_bytes() const override { return bytes_.size(); }

  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> to) const override;
  [[nodiscard]] Result<std::span<const std::byte>> view(
      std::uint64_t offset, std::size_t size, std::vector<std::byte>& scratch) const override;
  [[nodiscard]] Result<BlobHash> hash() const override;

  [[nodiscard]] work::FileMark mark() const { return file_.mark(); }

  /// Requires that `fill` is over. Error: as read's.
  [[nodiscard]] Result<work::ReadBytes> whole() const;

 private:
  void fail_with(const Error& error);

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  FileReader file_;
  BufferRef buffer_;
  std::span<std::byte> bytes_;  ///< of buffer_; the reader writes behind `end_`
  std::atomic<std::size_t> end_{0};
  /// Written before `is_over_` is, or not at all.
  std::optional<Error> error_;
  std::optional<BlobHash> hash_;
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> is_over_{false};
};

}  // namespace tenzro::store
