#pragma once
/// \file
/// `tenzro/blob/1`: one call asks for one range of a blob.
///
/// Integers are little-endian. Request, 46 bytes:
///
///     u8 version (1) | u8 features (0) | hash[32] | u64 offset | u32 length
///
/// Length 0 asks for the size alone. A range has at most kBlobRangeBytesMax bytes. Reply:
///
///     u8 version (1) | u8 features (0) | u8 status | u64 size of the blob | rest
///
/// where `rest` is the bytes of the range (status ok, exactly as many as were asked for), or a
/// sentence (status error, at most kBlobErrorTextBytesMax bytes), or nothing. The size is 0 unless
/// the status is ok. Reading is strict: another length, an unknown status, a set bit of `features`
/// or bytes that have no place are refused. A request of another version, or that needs features
/// this node lacks, is answered with status error and a sentence, in this layout; nothing after
/// those two bytes is looked at. Pure.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"

namespace tenzro::wire {

inline constexpr std::uint8_t kBlobVersion = 1;
inline constexpr std::size_t kBlobRequestBytes = 46;
inline constexpr std::size_t kBlobReplyHeadBytes = 11;
inline constexpr std::size_t kBlobErrorTextBytesMax = 512;

struct BlobRequest {
  BlobHash hash{};
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  friend bool operator==(const BlobRequest&, const BlobRequest&) = default;
};

enum class BlobStatus : std::uint8_t {
  ok = 0,
  not_found = 1,
  /// Not now: ask again in a moment, or somebody else.
  busy = 2,
  error = 3
};

struct BlobReply {
  BlobStatus status = BlobStatus::ok;
  std::uint64_t size_bytes = 0;
  /// The range; shares the reply's memory.
  BufferRef bytes;
  /// Status error: the peer's sentence, as it came.
  std::string error;
};

[[nodiscard]] BufferRef encode_blob_request(const BlobRequest& request);
/// Error: invalid_request; unknown_method where it is of another version or needs features that
/// this node lacks, with the sentence to answer.
[[nodiscard]] Result<BlobRequest> decode_blob_request(const BufferRef& bytes);

/// What stands before the bytes of the range.
[[nodiscard]] BufferRef encode_blob_head(BlobStatus status, std::uint64_t size_bytes);
/// Status error; the sentence is cut where it is too long.
[[nodiscard]] BufferRef encode_blob_error(std::string_view sentence);
/// Error: invalid_request. A range that is longer or shorter than `length` is refused, and a size
/// that `offset + length` is beyond.
[[nodiscard]] Result<BlobReply> decode_blob_reply(const BufferRef& bytes,
                                                  const BlobRequest& request);

}  // namespace tenzro::wire
