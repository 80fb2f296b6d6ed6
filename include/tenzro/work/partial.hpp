#pragma once
/// \file
/// Store operations on blobs that arrive in pieces, from peers, in any order (see store.hpp for the
/// rules), and on parts of blobs that are there.
#include <cstdint>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"

namespace tenzro::work {

/// Bytes [begin, end) of a blob.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// Begins a partial blob, or goes on with what an earlier attempt left. Its whole size is reserved:
/// no_space, with the numbers, where budget or disk have no room for it.
struct OpenPartial {
  BlobHash hash{};
  std::uint64_t size_bytes = 0;
};

/// Writes one piece of an open partial; over what is there, too.
struct WritePartial {
  BlobHash hash{};
  std::uint64_t offset = 0;
  BufferRef bytes;
};

/// Checks the whole hash; where it is right the blob is durable and in place, with a lease. Where
/// it is not the partial stays open.
struct FinishPartial {
  BlobHash hash{};
};

enum class Leftover : std::uint8_t { kept, removed };

/// The partial is not written any more. Kept, it can be opened again, also after a restart, until
/// its room is needed.
struct ClosePartial {
  BlobHash hash{};
  Leftover leftover = Leftover::removed;
};

/// Ends leases of a blob: without one, a holding or a publication it goes.
struct ReleaseBlob {
  BlobHash hash{};
  std::uint32_t leases = 1;
  /// Publish it, so that it stays.
  bool is_kept = false;
};

/// Bytes [offset, offset + length) of a blob, and its size. Error: not_found; invalid_params where
/// they are not inside it.
struct ReadBlobRange {
  BlobHash hash{};
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

struct OpenedPartial {
  /// The blob is in the store, and has got a lease: there is nothing to fetch.
  bool is_complete = false;
  /// What is there of it, ascending, not touching one another.
  std::vector<ByteRange> there;
};

struct WrittenPartial {
  /// BLAKE3 of the piece.
  BlobHash piece_hash{};
};

struct FinishedPartial {
  /// False: the bytes hash to something else.
  bool is_intact = false;
};

struct BlobRange {
  BufferRef bytes;
  std::uint64_t size_bytes = 0;
};

}  // namespace tenzro::work
