#include "arriving_file.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "tenzro/crypto/blake3.hpp"

namespace tenzro::store {
namespace {

/// Read between two looks of those who wait.
constexpr std::size_t kStepBytes = std::size_t{256} << 10U;
/// Less is hashed sooner than a thread wakes up.
constexpr std::size_t kHashedBesideMin = std::size_t{1} << 20U;

}  // namespace

ArrivingFile::ArrivingFile(FileReader file)
    : file_(std::move(file)),
      buffer_(BufferRef::allocate(static_cast<std::size_t>(file_.size_bytes()))),
      bytes_(buffer_.mutable_bytes()) {}

void ArrivingFile::fill(bool wants_hash, const Beside& beside) {
  const auto follower = wants_hash ? std::make_shared<HashFollower>(bytes()) : nullptr;
  if (wants_hash && beside && bytes_.size() >= kHashedBesideMin)
    static_cast<void>(beside([follower] { follower->follow(); }));
  for (std::size_t offset = 0; offset < bytes_.size(); offset += kStepBytes) {
    const std::span<std::byte> piece =
        bytes_.subspan(offset, std::min(kStepBytes, bytes_.size() - offset));
    if (Status read = file_.read_at(offset, piece); !read) {
      if (follower) follower->abandon();
      return fail_with(read.error());
    }
    end_ = offset + piece.size();
    end_.notify_all();
    if (follower) follower->advance(end_);
  }
  if (follower) hash_ = follower->finish();
  is_over_ = true;
  is_over_.notify_all();
}

void ArrivingFile::fail_with(const Error& error) {
  error_ = error;
  has_failed_ = true;
  // Wakes whoever waits, wherever: asked after it, `has_failed_` says that this is no end of bytes.
  end_ = bytes_.size() + 1;
  end_.notify_all();
  is_over_ = true;
  is_over_.notify_all();
}

Status ArrivingFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  std::vector<std::byte> unused;
  const auto from = view(offset, to.size(), unused);
  if (!from) return fail(from.error());
  std::copy(from->begin(), from->end(), to.begin());
  return {};
}

Result<std::span<const std::byte>> ArrivingFile::view(std::uint64_t offset, std::size_t size,
                                                      std::vector<std::byte>& /*scratch*/) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset)
    return fail(ErrorCode::io, "blob", "ends early");
  const std::size_t wanted = static_cast<std::size_t>(offset) + size;
  for (std::size_t end = end_; end < wanted; end = end_) end_.wait(end);
  if (has_failed_) return fail(*error_);
  return bytes().subspan(static_cast<std::size_t>(offset), size);
}

Result<BlobHash> ArrivingFile::hash() const {
  is_over_.wait(false);
  if (error_) return fail(*error_);
  return hash_ ? *hash_ : crypto::blake3(bytes());
}

Result<work::ReadBytes> ArrivingFile::whole() const {
  if (error_) return fail(*error_);
  return work::ReadBytes{.bytes = buffer_, .hash = hash_, .file = mark()};
}

}  // namespace tenzro::store
