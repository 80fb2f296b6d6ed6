#include "tenzro/node/node.hpp"

namespace tenzro::node {

void Node::on_peer_request(Instant now, work::PeerRequest request, Outbox& out) {
  switch (request.protocol) {
    case wire::Protocol::exec:
      serve_exec(now, std::move(request), out);
      break;
    case wire::Protocol::moe:
      serve_frame(now, std::move(request), out);
      break;
    case wire::Protocol::gossip:
    case wire::Protocol::blob:
      out.emplace_back(RefuseRequest{request.id});
      break;
  }
  settle(now, out);
}

void Node::on_peer_request_cancelled(Instant now, PeerRequestId request, Outbox& out) {
  if (peer_requests_.contains(request)) {
    ++totals_.peer_requests_cancelled;
    end_peer(request);
  }
  settle(now, out);
}

void Node::on_peer_reply(Instant now, PeerCallId /*call*/, const work::CallResult& /*result*/,
                         Outbox& out) {
  settle(now, out);
}

}  // namespace tenzro::node
