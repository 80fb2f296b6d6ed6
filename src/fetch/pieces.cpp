#include <algorithm>

#include "transfer.hpp"

namespace tenzro::fetch {

wire::BlobRequest Transfer::request_of(std::uint32_t piece) const {
  const std::uint64_t offset = std::uint64_t{piece} * shared_.options.piece_bytes;
  const std::uint64_t length =
      std::min<std::uint64_t>(shared_.options.piece_bytes, size_bytes_ - offset);
  return {.hash = hash_, .offset = offset, .length = static_cast<std::uint32_t>(length)};
}

void Transfer::lay_out(const std::vector<work::ByteRange>& there) {
  const std::uint64_t step = shared_.options.piece_bytes;
  pieces_.assign((size_bytes_ + step - 1) / step, {});
  missing_.clear();
  auto range = there.begin();
  for (std::uint32_t piece = 0; piece < pieces_.size(); ++piece) {
    const wire::BlobRequest bytes = request_of(piece);
    const std::uint64_t end = bytes.offset + bytes.length;
    while (range != there.end() && range->end < end) ++range;
    if (range != there.end() && range->begin <= bytes.offset) {
      shared_.totals.bytes_resumed += bytes.length;
    } else {
      missing_.insert(piece);
    }
  }
}

bool Transfer::ask_for_piece(Instant now, Outbox& out) {
  is_starved_ = false;
  if (phase_ != Phase::moving || missing_.empty() || now < store_paused_until_) return false;
  if (open_pieces_ >= shared_.options.fetch_pieces_max ||
      shared_.pieces_in_flight >= shared_.options.pieces_in_flight_max)
    return false;
  const std::optional<std::size_t> peer = peer_for_piece(now);
  if (!peer) return false;
  const std::uint32_t piece = *missing_.begin();
  const wire::BlobRequest request = request_of(piece);
  if (!shared_.bucket.take(now, request.length)) {
    is_starved_ = true;
    return false;
  }
  missing_.erase(piece);
  ++open_pieces_;
  ++shared_.pieces_in_flight;
  ++peers_[*peer].in_flight;
  last_peer_ = *peer;
  call(now, *peer, piece, request, out);
  return true;
}

void Transfer::give_back(std::uint32_t piece) {
  --open_pieces_;
  --shared_.pieces_in_flight;
  missing_.insert(piece);
}

void Transfer::on_written(Instant now, const StoreJob& job, const work::StoreResult& result,
                          Outbox& out) {
  if (!result && result.error().code == ErrorCode::busy) {
    give_back(*job.piece);
    store_paused_until_ = now + shared_.options.pause_min;
    return;
  }
  if (!result) return fail_all(result.error(), work::Leftover::removed, out);
  --open_pieces_;
  --shared_.pieces_in_flight;
  progress_at_ = now;
  Piece& piece = pieces_[*job.piece];
  piece.giver = job.peer;
  piece.hash = std::get<work::WrittenPartial>(*result).piece_hash;
}

void Transfer::on_mismatch(Outbox& out) {
  ++shared_.totals.mismatches;
  if (auditor_) {
    accuse(*auditor_, out);  // it gave every byte
  } else {
    std::set<std::optional<std::size_t>> givers;
    for (const Piece& piece : pieces_) givers.insert(piece.giver);
    if (givers.size() == 1 && givers.begin()->has_value()) accuse(**givers.begin(), out);
  }
  is_auditing_ = true;
  auditor_.reset();
}

/// The one that gave most: it has least to give again.
void Transfer::choose_auditor() {
  std::vector<std::size_t> given(peers_.size(), 0);
  for (const Piece& piece : pieces_) {
    if (piece.giver) ++given[*piece.giver];
  }
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].standing != Standing::ready) continue;
    if (!best || given[i] > given[*best]) best = i;
  }
  if (best) audit(*best);
}

void Transfer::audit(std::size_t peer) {
  auditor_ = peer;
  missing_.clear();
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    piece.suspect.reset();
    if (piece.giver == peer) continue;
    piece.suspect = piece.giver;
    piece.suspect_hash = piece.hash;
    missing_.insert(i);
  }
}

void Transfer::accuse_suspects(Outbox& out) {
  for (const Piece& piece : pieces_) {
    if (piece.suspect && piece.suspect_hash != piece.hash) accuse(*piece.suspect, out);
  }
}

}  // namespace tenzro::fetch
