#include "tenzro/fetch/serving.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tenzro::fetch {

void Serving::answer(PeerRequestId request, wire::BlobStatus status, ServingOutbox& out) {
  out.emplace_back(work::SendReply{request, {wire::encode_blob_head(status, 0)}});
}

std::size_t Serving::reads_of(const EndpointId& peer) const {
  return static_cast<std::size_t>(std::count_if(
      reads_.begin(), reads_.end(), [&](const auto& read) { return read.second.peer == peer; }));
}

void Serving::on_request(Instant now, const work::PeerRequest& request, Admission admission,
                         ServingOutbox& out) {
  ++totals_.requests;
  const Result<wire::BlobRequest> asked = wire::decode_blob_request(request.bytes);
  const auto refuse_with = [&](std::string_view sentence) {
    ++totals_.refused;
    out.emplace_back(work::SendReply{request.id, {wire::encode_blob_error(sentence)}});
  };
  if (!asked && asked.error().code == ErrorCode::unknown_method)
    return refuse_with(asked.error().detail);
  if (!asked) {
    ++totals_.refused;
    out.emplace_back(work::RefuseRequest{request.id});
    return;
  }
  if (admission == Admission::refused)
    return refuse_with("blobs are served to providers that this node knows, and to no others");
  const bool has_room = admission == Admission::admitted && reads_.size() < options_.reads_max &&
                        reads_of(request.from) < options_.peer_reads_max &&
                        bucket_.take(now, asked->length);
  if (!has_room) {
    ++totals_.busy;
    answer(request.id, wire::BlobStatus::busy, out);
    return;
  }
  const JobId id = ids_.next();
  reads_.emplace(id, Read{request.id, request.from});
  out.emplace_back(work::Store{id, work::ReadBlobRange{asked->hash, asked->offset, asked->length}});
}

void Serving::on_cancelled(PeerRequestId request) {
  for (auto& [id, read] : reads_) {
    if (read.request == request) read.is_wanted = false;
  }
}

void Serving::on_store_done(JobId id, const work::StoreResult& result, ServingOutbox& out) {
  const auto read = reads_.extract(id);
  if (!read || !read.mapped().is_wanted) return;
  const PeerRequestId request = read.mapped().request;
  if (result) {
    const auto& range = std::get<work::BlobRange>(*result);
    totals_.bytes_sent += range.bytes.size();
    std::vector<BufferRef> parts{wire::encode_blob_head(wire::BlobStatus::ok, range.size_bytes)};
    if (!range.bytes.empty()) parts.push_back(range.bytes);
    out.emplace_back(work::SendReply{request, std::move(parts)});
  } else if (result.error().code == ErrorCode::not_found) {
    ++totals_.not_found;
    answer(request, wire::BlobStatus::not_found, out);
  } else if (result.error().code == ErrorCode::busy) {
    ++totals_.busy;
    answer(request, wire::BlobStatus::busy, out);
  } else if (result.error().code == ErrorCode::invalid_params) {
    out.emplace_back(work::SendReply{request, {wire::encode_blob_error(result.error().message())}});
  } else {
    // What the system said names files of ours: none of the peer's business.
    out.emplace_back(work::SendReply{request, {wire::encode_blob_error("the blob is unreadable")}});
  }
}

}  // namespace tenzro::fetch
