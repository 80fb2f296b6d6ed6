#include "hash_follower.hpp"

namespace tenzro::store {

void HashFollower::follow() {
  if (is_taken_.exchange(true)) return;
  std::size_t hashed = 0;
  while (hashed < bytes_.size()) {
    end_.wait(hashed);
    const std::size_t end = end_;
    if (is_abandoned_) break;  // asked last: what wakes the wait then is no end of bytes
    hasher_.update(bytes_.subspan(hashed, end - hashed));
    hashed = end;
  }
  is_done_ = true;
  is_done_.notify_one();
}

void HashFollower::advance(std::size_t end) {
  end_ = end;
  end_.notify_one();
}

BlobHash HashFollower::finish() {
  if (is_taken_.exchange(true)) {
    is_done_.wait(false);
  } else {
    hasher_.update(bytes_);
  }
  return hasher_.digest();
}

void HashFollower::abandon() {
  is_abandoned_ = true;
  if (!is_taken_.exchange(true)) return;
  advance(bytes_.size() + 1);  // wakes it, wherever it waits
  is_done_.wait(false);
}

}  // namespace tenzro::store
