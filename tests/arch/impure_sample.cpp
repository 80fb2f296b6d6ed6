// What a pure module may not do, so that a test sees the scan of symbols refuse it.
#include <ctime>
#include <random>

namespace tenzro::arch {

long impure_sample();

long impure_sample() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::random_device device;
  return now.tv_nsec + static_cast<long>(device());
}

}  // namespace tenzro::arch
