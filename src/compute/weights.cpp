#include "tenzro/compute/weights.hpp"

namespace tenzro::compute {

Result<std::span<const std::byte>> WeightSource::view(std::uint64_t offset, std::size_t size,
                                                      std::vector<std::byte>& scratch) const {
  scratch.resize(size);
  if (Status done = read(offset, scratch); !done) return tl::unexpected<Error>(done.error());
  return std::span<const std::byte>(scratch);
}

}  // namespace tenzro::compute
