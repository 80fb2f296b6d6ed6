#pragma once
/// \file
/// ByteBudget: how many bytes of one kind, bodies or answers, are held at once, and the cap on
/// them.
///
/// A Reservation gives its bytes back when it dies. Thread: the loop's.
#include <cstddef>

#include "tenzro/base/assert.hpp"

namespace tenzro::http {

class ByteBudget {
 public:
  explicit ByteBudget(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  [[nodiscard]] bool take(std::size_t bytes) {
    if (bytes > bytes_max_ - used_) return false;
    used_ += bytes;
    return true;
  }

  /// Requires that so much was taken.
  void give_back(std::size_t bytes) {
    TENZRO_ASSERT(bytes <= used_);
    used_ -= bytes;
  }

  [[nodiscard]] std::size_t left() const { return bytes_max_ - used_; }

  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::size_t bytes_max_;
  std::size_t used_ = 0;  // never above bytes_max_
};

class Reservation {
 public:
  explicit Reservation(ByteBudget& budget) : budget_(&budget) {}

  ~Reservation() { budget_->give_back(bytes_); }

  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  /// Makes the reservation at least `bytes` large; false, and unchanged, where the cap forbids it.
  [[nodiscard]] bool grow_to(std::size_t bytes) {
    if (bytes <= bytes_) return true;
    if (!budget_->take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  ByteBudget* budget_;
  std::size_t bytes_ = 0;
};

}  // namespace tenzro::http
