#pragma once
/// \file
/// CopyProof: whether others really have a blob that they declare.
///
/// Each is asked for the same few bytes, at a place that nobody could know before, and they must be
/// those of this node's own copy. Why: a copy is given up only for others that exist. It is over at
/// the first that fails, or after `kTimeMax`. Thread: the owner's only. Pure.
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/node/action.hpp"

namespace tenzro::node {

class CopyProof {
 public:
  enum class State : std::uint8_t { open, proven, failed };
  static constexpr std::uint64_t kBytes = 4096;
  static constexpr Duration kTimeMax = std::chrono::seconds(10);

  CopyProof(Instant now, const ExpertKey& key, const BlobHash& blob,
            std::vector<work::PeerTarget> others);

  /// The operation whose result on_range wants.
  [[nodiscard]] work::ReadBlobRange next_read() const;
  /// This node's own bytes. True: call next_read again; else the others are asked.
  [[nodiscard]] bool on_range(const work::StoreResult& result, Prng& prng, work::CallIds& calls,
                              Outbox& out);
  /// False where the call is none of this one's.
  bool on_reply(PeerCallId call, const work::CallResult& result);
  void on_tick(Instant now);

  [[nodiscard]] Instant until() const { return until_; }

  [[nodiscard]] State state() const { return state_; }

  [[nodiscard]] const ExpertKey& key() const { return key_; }

  [[nodiscard]] const BlobHash& blob() const { return blob_; }

 private:
  ExpertKey key_;
  BlobHash blob_;
  std::vector<work::PeerTarget> others_;
  Instant until_;
  State state_ = State::open;
  std::optional<std::uint64_t> size_bytes_;
  std::uint64_t offset_ = 0;
  BufferRef own_;
  std::set<PeerCallId> calls_;
};

}  // namespace tenzro::node
