#include "copy_proof.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/wire/blob_message.hpp"

namespace tenzro::node {

CopyProof::CopyProof(Instant now, const ExpertKey& key, const BlobHash& blob,
                     std::vector<work::PeerTarget> others)
    : key_(key), blob_(blob), others_(std::move(others)), until_(now + kTimeMax) {
  if (others_.empty()) state_ = State::failed;
}

work::ReadBlobRange CopyProof::next_read() const {
  if (!size_bytes_) return {blob_, 0, 0};
  return {blob_, offset_, std::min(kBytes, *size_bytes_)};
}

bool CopyProof::on_range(const work::StoreResult& result, Prng& prng, work::CallIds& calls,
                         Outbox& out) {
  const auto* range = result ? std::get_if<work::BlobRange>(&*result) : nullptr;
  if (range == nullptr || range->size_bytes == 0) {
    state_ = State::failed;
    return false;
  }
  if (!size_bytes_) {
    size_bytes_ = range->size_bytes;
    offset_ = prng.below(*size_bytes_ - std::min(kBytes, *size_bytes_) + 1);
    return true;
  }
  own_ = range->bytes;
  const wire::BlobRequest request{blob_, offset_, static_cast<std::uint32_t>(own_.size())};
  for (work::PeerTarget& other : others_) {
    const PeerCallId id = calls.next();
    calls_.insert(id);
    out.emplace_back(
        SendCall{id, std::move(other), wire::Protocol::blob, {wire::encode_blob_request(request)}});
  }
  return false;
}

bool CopyProof::on_reply(PeerCallId call, const work::CallResult& result) {
  if (calls_.erase(call) == 0) return false;
  bool is_equal = false;
  if (result) {
    const wire::BlobRequest request{blob_, offset_, static_cast<std::uint32_t>(own_.size())};
    const auto reply = wire::decode_blob_reply(result->bytes, request);
    is_equal = reply && reply->status == wire::BlobStatus::ok &&
               reply->size_bytes == *size_bytes_ &&
               std::ranges::equal(reply->bytes.bytes(), own_.bytes());
  }
  if (!is_equal) state_ = State::failed;
  if (calls_.empty() && state_ == State::open) state_ = State::proven;
  return true;
}

void CopyProof::on_tick(Instant now) {
  if (state_ == State::open && until_ <= now) state_ = State::failed;
}

}  // namespace tenzro::node
