#pragma once
/// \file
/// Which stream of a connection sends next.
///
/// Short messages go first, so that a small call never waits for megabytes; long ones go one after
/// another, oldest first. Why not in turns: a receiver that bounds what it holds of us could then
/// fill up with many unfinished messages and none that it may release. After kShortRun short
/// packets a long message has its turn. Bounded by the streams of the connection.
#include <cstddef>
#include <deque>

namespace tenzro::net {

struct Stream;

class SendQueue {
 public:
  static constexpr std::size_t kShortBytes = 64 << 10;
  static constexpr std::size_t kShortRun = 64;

  /// No effect where it is queued already, or has nothing to send.
  void add(Stream& stream);
  void remove(Stream& stream);

  [[nodiscard]] bool is_empty() const { return short_.empty() && long_.empty(); }

  /// Null where nothing is to be sent.
  [[nodiscard]] Stream* next();

 private:
  std::deque<Stream*> short_;
  std::deque<Stream*> long_;
  std::size_t run_ = 0;
};

}  // namespace tenzro::net
