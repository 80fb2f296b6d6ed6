#include "space_reserve.hpp"

#include <filesystem>
#include <system_error>
#include <vector>

#include "temp_file.hpp"

namespace tenzro::store {
namespace {

constexpr unsigned kMode = 0600;
/// Not zero: a file system that compresses would put nothing by for zeros. One that compresses this
/// still keeps a little; it has no better promise to give.
constexpr std::byte kFiller{0xA5};

}  // namespace

bool SpaceReserve::is_there() const {
  std::error_code error;
  return std::filesystem::file_size(path_, error) == kReserveBytes && !error;
}

bool SpaceReserve::write() const {
  Result<TempFile> file = TempFile::create(files_, path_ + ".tmp", kMode);
  if (!file) return false;
  const std::vector<std::byte> filler(kReserveBytes, kFiller);
  return file->append(filler) && file->commit_as(path_);
}

void SpaceReserve::make() {
  if (!is_made_) is_made_ = is_there() || write();
}

bool SpaceReserve::release() {
  is_made_ = false;
  return files_.unlink(path_) == 0;
}

}  // namespace tenzro::store
