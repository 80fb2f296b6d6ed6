#pragma once
/// \file
/// Pacing: how long a connection pauses after a burst, so that what it sends does not fill the
/// queues of the path.
///
/// Rule: what the path carries in kPauseMin may leave at once; then a pause as long as the path
/// takes for it, at 1.25 windows a round trip. A path that answers within kPauseMin paces itself by
/// its acknowledgements: there is no pause, and what went out there counts for none later.
/// Why not the library's: it adds up whatever was sent since it was last asked, so that after a
/// gigabyte over a near path the first late answer brought a pause of seconds.
/// Pure. Time: nanoseconds of the caller's clock.
#include <cstddef>
#include <cstdint>

namespace tenzro::net {

class Pacer {
 public:
  using Nanoseconds = std::uint64_t;

  /// Shorter pauses cost more than they smooth out.
  static constexpr Nanoseconds kPauseMin = 1'000'000;
  /// Of one turn, so that what arrives meanwhile is read.
  static constexpr std::size_t kBurstBytesMax = 512 << 10;

  struct Path {
    Nanoseconds smoothed_rtt = 0;
    std::uint64_t congestion_window = 0;
    /// What the transport would send at once.
    std::size_t quantum = 0;
  };

  /// Whether the path answers within kPauseMin.
  [[nodiscard]] static bool is_near(const Path& path) { return path.smoothed_rtt < kPauseMin; }

  /// What may leave at once.
  [[nodiscard]] static std::size_t burst(const Path& path);
  /// `bytes` went out in one turn. True where a pause begins.
  bool on_sent(Nanoseconds now, std::size_t bytes, const Path& path);

  [[nodiscard]] bool is_paused(Nanoseconds now) const { return now < resumes_at_; }

  /// When the pause ends; long past where there is none.
  [[nodiscard]] Nanoseconds resumes_at() const { return resumes_at_; }

 private:
  std::size_t unpaced_ = 0;  ///< sent since the last pause
  Nanoseconds resumes_at_ = 0;
};

}  // namespace tenzro::net
