#include "tenzro/node/node.hpp"

namespace tenzro::node {

void Node::on_peer_request(Instant now, work::PeerRequest request, Outbox& out) {
  if (request.protocol == wire::Protocol::blob) {
    const bool is_admitted = options_.serves_anyone || is_member(request.from);
    serving_.on_request(now, request,
                        is_admitted ? fetch::Admission::admitted : fetch::Admission::refused,
                        serving_out_);
  } else {
    out.emplace_back(RefuseRequest{request.id});
  }
  settle(now, out);
}

void Node::on_peer_request_cancelled(Instant now, PeerRequestId request, Outbox& out) {
  serving_.on_cancelled(request);
  settle(now, out);
}

void Node::on_peer_reply(Instant now, PeerCallId call, const work::CallResult& result,
                         Outbox& out) {
  fetches_.on_peer_reply(now, call, result, fetch_out_);
  settle(now, out);
}

}  // namespace tenzro::node
