// Transfer: sources that are asked over HTTP, for ranges of /blob/<hash>.
#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"

#include "transfer.hpp"

namespace tenzro::fetch {
namespace {

// Of HTTP.
constexpr int kOk = 200;
constexpr int kPartialContent = 206;
constexpr int kNotFound = 404;
constexpr int kTooManyRequests = 429;
constexpr int kUnavailable = 503;

}  // namespace

/// The size comes with any range, so that whoever asks for it alone asks for one byte.
void Transfer::call_http(PeerCallId id, Call& call, Outbox& out) {
  call.room = BufferRef::allocate(std::max<std::size_t>(1, call.request.length));
  const std::span<std::byte> room = call.room.mutable_bytes();
  out.emplace_back(
      work::Download{.id = id,
                     .url = peers_[call.peer].source.http_endpoint + "/blob/" + to_hex(hash_),
                     .offset = call.request.offset,
                     .buffer = call.room,
                     .room = room,
                     .credential = work::Credential::node_signature});
}

void Transfer::on_downloaded(Instant now, PeerCallId id, const work::Downloaded& downloaded,
                             Outbox& out) {
  seen_ = now;
  const auto extracted = calls_.extract(id);
  if (!extracted) return;
  const Call& call = extracted.mapped();
  const int status = downloaded.status;
  const bool has_all = downloaded.received == call.room.size();
  const bool is_answer = status == kPartialContent || (status == kOk && call.request.offset == 0);
  if (is_answer && has_all && downloaded.file_bytes) {
    wire::BlobReply reply{.size_bytes = *downloaded.file_bytes};
    if (call.piece) reply.bytes = call.room;
    return take_reply(now, call, reply, out);
  }
  if (status == kTooManyRequests || status == kUnavailable)
    return take_reply(now, call, {.status = wire::BlobStatus::busy}, out);
  if (status == kNotFound) return refuse(call, "does not have it", out);
  if (is_answer || status == 0) {
    const std::string& why = downloaded.failure;
    return on_failure(now, call, why.empty() ? "gave less than was asked for" : echo(why), out);
  }
  refuse(call, "answered HTTP status " + std::to_string(status), out);
}

bool Fetches::on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded,
                            Outbox& out) {
  const auto it = std::find_if(transfers_.begin(), transfers_.end(),
                               [call](const auto& entry) { return entry.second->owns(call); });
  if (it == transfers_.end()) return false;
  it->second->on_downloaded(now, call, downloaded, out);
  advance(now, out);
  return true;
}

}  // namespace tenzro::fetch
