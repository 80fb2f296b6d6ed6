#include "tenzro/wire/blob_message.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/protocol.hpp"

namespace tenzro::wire {
namespace {

constexpr std::size_t kHashAt = 2;
constexpr std::size_t kOffsetAt = kHashAt + sizeof(BlobHash);
constexpr std::size_t kLengthAt = kOffsetAt + sizeof(std::uint64_t);
static_assert(kLengthAt + sizeof(std::uint32_t) == kBlobRequestBytes);
constexpr std::size_t kStatusAt = 2;
constexpr std::size_t kSizeAt = 3;
static_assert(kSizeAt + sizeof(std::uint64_t) == kBlobReplyHeadBytes);

template <typename Integer>
void store_le(std::span<std::byte> to, std::size_t at, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    to[at + i] = static_cast<std::byte>((value >> (8 * i)) & 0xFFU);
}

tl::unexpected<Error> refuse(const char* what, const char* why) {
  return fail(ErrorCode::invalid_request, what, why);
}

}  // namespace

BufferRef encode_blob_request(const BlobRequest& request) {
  std::array<std::byte, kBlobRequestBytes> bytes{};
  bytes[0] = std::byte{kBlobVersion};
  std::transform(request.hash.begin(), request.hash.end(), bytes.begin() + kHashAt,
                 [](std::uint8_t byte) { return std::byte{byte}; });
  store_le(std::span<std::byte>(bytes), kOffsetAt, request.offset);
  store_le(std::span<std::byte>(bytes), kLengthAt, request.length);
  return BufferRef::copy_of(std::span<const std::byte>(bytes));
}

Result<BlobRequest> decode_blob_request(const BufferRef& bytes) {
  const std::span<const std::uint8_t> all = as_u8(bytes.bytes());
  if (all.empty()) return refuse("blob request", "is empty");
  if (all[0] != kBlobVersion) {
    return fail(ErrorCode::unknown_method, "",
                "tenzro/blob version " + std::to_string(all[0]) + " is not spoken here, only " +
                    std::to_string(kBlobVersion));
  }
  if (all.size() > 1 && all[1] != 0) {
    return fail(ErrorCode::unknown_method, "",
                "the message needs features that this node lacks: " + std::to_string(all[1]));
  }
  if (all.size() != kBlobRequestBytes) return refuse("blob request", "has a wrong length");
  BlobRequest request;
  std::copy_n(all.begin() + kHashAt, request.hash.size(), request.hash.begin());
  request.offset = load_u64_le(&all[kOffsetAt]);
  request.length = load_u32_le(&all[kLengthAt]);
  if (request.length > kBlobRangeBytesMax)
    return refuse("blob request", "asks for too long a range");
  if (!checked_add(request.offset, request.length)) return refuse("blob request", "has no end");
  return request;
}

BufferRef encode_blob_head(BlobStatus status, std::uint64_t size_bytes) {
  std::array<std::byte, kBlobReplyHeadBytes> bytes{};
  bytes[0] = std::byte{kBlobVersion};
  bytes[kStatusAt] = static_cast<std::byte>(status);
  store_le(std::span<std::byte>(bytes), kSizeAt, size_bytes);
  return BufferRef::copy_of(std::span<const std::byte>(bytes));
}

BufferRef encode_blob_error(std::string_view sentence) {
  const BufferRef head = encode_blob_head(BlobStatus::error, 0);
  const BufferRef text = BufferRef::copy_of(sentence.substr(0, kBlobErrorTextBytesMax));
  BufferRef reply = BufferRef::allocate(head.size() + text.size());
  const std::span<std::byte> to = reply.mutable_bytes();
  std::copy(head.bytes().begin(), head.bytes().end(), to.begin());
  std::copy(text.bytes().begin(), text.bytes().end(), to.begin() + kBlobReplyHeadBytes);
  return reply;
}

Result<BlobReply> decode_blob_reply(const BufferRef& bytes, const BlobRequest& request) {
  const std::span<const std::uint8_t> all = as_u8(bytes.bytes());
  if (all.size() < kBlobReplyHeadBytes) return refuse("blob reply", "is too short");
  if (all[0] != kBlobVersion) {
    const std::string why = "is of version " + std::to_string(all[0]) + ", this node speaks " +
                            std::to_string(kBlobVersion);
    return refuse("blob reply", why.c_str());
  }
  if (all[1] != 0) return refuse("blob reply", "needs features that this node lacks");
  if (all[kStatusAt] > static_cast<std::uint8_t>(BlobStatus::error))
    return refuse("blob reply", "has an unknown status");
  BlobReply reply;
  reply.status = static_cast<BlobStatus>(all[kStatusAt]);
  reply.size_bytes = load_u64_le(&all[kSizeAt]);
  reply.bytes = bytes.slice(kBlobReplyHeadBytes, bytes.size() - kBlobReplyHeadBytes);
  if (reply.status != BlobStatus::ok && reply.size_bytes != 0)
    return refuse("blob reply", "tells the size of what it does not give");
  if (reply.status == BlobStatus::error) {
    if (reply.bytes.size() > kBlobErrorTextBytesMax)
      return refuse("blob reply", "has too long a sentence");
    reply.error = std::string(reply.bytes.text());
    reply.bytes = {};
    return reply;
  }
  const std::size_t wanted = reply.status == BlobStatus::ok ? request.length : 0;
  if (reply.bytes.size() != wanted) return refuse("blob reply", "has a wrong number of bytes");
  if (wanted != 0 &&
      (request.offset > reply.size_bytes || wanted > reply.size_bytes - request.offset)) {
    return refuse("blob reply", "gives bytes beyond the blob's end");
  }
  return reply;
}

}  // namespace tenzro::wire
