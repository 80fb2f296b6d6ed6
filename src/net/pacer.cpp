#include "pacer.hpp"

#include <algorithm>

namespace tenzro::net {

std::size_t Pacer::burst(const Path& path) {
  // A window is at most some megabytes: no overflow.
  const std::uint64_t carried =
      path.congestion_window * kPauseMin / std::max<Nanoseconds>(path.smoothed_rtt, 1000);
  return std::max(path.quantum,
                  static_cast<std::size_t>(std::min<std::uint64_t>(carried, kBurstBytesMax)));
}

bool Pacer::on_sent(Nanoseconds now, std::size_t bytes, const Path& path) {
  if (is_near(path)) {
    unpaced_ = 0;
    return false;
  }
  unpaced_ += bytes;
  if (unpaced_ < burst(path)) return false;
  // 1.25 windows a round trip: what acknowledgements delay must not leave the path idle.
  const std::uint64_t window = std::max<std::uint64_t>(path.congestion_window, 1);
  resumes_at_ = now + unpaced_ * 4 / 5 * path.smoothed_rtt / window;
  unpaced_ = 0;
  return true;
}

}  // namespace tenzro::net
