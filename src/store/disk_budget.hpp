#pragma once
/// \file
/// DiskBudget: how many bytes of blobs there are, and how many there may be.
///
/// Bytes on their way to the disk count from the moment they are announced, so that writers side by
/// side cannot overrun the budget together. A Reservation gives its bytes back when it dies, unless
/// it was kept. Thread: any.
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "tenzro/base/result.hpp"

namespace tenzro::store {

class DiskBudget {
 public:
  /// `budget_bytes` 0: no limit but the disk's.
  explicit DiskBudget(std::uint64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  /// Error: no_space, with the numbers.
  [[nodiscard]] Status take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);
  /// Whether take(bytes) would succeed now.
  [[nodiscard]] Status has_room_for(std::uint64_t bytes) const;

  /// Counts bytes that are on the disk already, budget or not.
  void count(std::uint64_t bytes) { used_bytes_ += bytes; }

  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }

  [[nodiscard]] std::uint64_t budget_bytes() const { return budget_bytes_; }

 private:
  const std::uint64_t budget_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};
};

class Reservation {
 public:
  explicit Reservation(std::shared_ptr<DiskBudget> budget) : budget_(std::move(budget)) {}

  Reservation(Reservation&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}

  Reservation& operator=(Reservation&&) = delete;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  ~Reservation() {
    if (bytes_ != 0) budget_->give_back(bytes_);
  }

  [[nodiscard]] Status grow(std::uint64_t bytes);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  /// The bytes are on the disk for good.
  void keep() { bytes_ = 0; }

 private:
  std::shared_ptr<DiskBudget> budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace tenzro::store
