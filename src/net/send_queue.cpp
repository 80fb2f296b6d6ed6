#include "send_queue.hpp"

#include <algorithm>

#include "stream.hpp"

namespace tenzro::net {

void SendQueue::add(Stream& stream) {
  if (stream.is_queued || !stream.out.is_pending()) return;
  stream.is_queued = true;
  if (stream.out.size() <= kShortBytes) {
    short_.push_back(&stream);
    return;
  }
  // Stream ids grow with age: one that was held back by its window finds its place again.
  const auto younger = std::find_if(long_.begin(), long_.end(),
                                    [&](const Stream* other) { return other->id > stream.id; });
  long_.insert(younger, &stream);
}

void SendQueue::remove(Stream& stream) {
  if (!stream.is_queued) return;
  stream.is_queued = false;
  std::deque<Stream*>& queue = stream.out.size() <= kShortBytes ? short_ : long_;
  const auto found = std::find(queue.begin(), queue.end(), &stream);
  if (found != queue.end()) queue.erase(found);
}

Stream* SendQueue::next() {
  const bool is_short = !short_.empty() && (long_.empty() || run_ < kShortRun);
  run_ = is_short ? run_ + 1 : 0;
  if (is_short) return short_.front();
  return long_.empty() ? nullptr : long_.front();
}

}  // namespace tenzro::net
