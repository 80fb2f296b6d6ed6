#include "tenzro/node/node.hpp"

namespace tenzro::node {

void Node::on_peer_request(Instant now, work::PeerRequest request, Outbox& out) {
  out.emplace_back(RefuseRequest{request.id});
  settle(now, out);
}

void Node::on_peer_request_cancelled(Instant now, PeerRequestId /*request*/, Outbox& out) {
  settle(now, out);
}

void Node::on_peer_reply(Instant now, PeerCallId /*call*/, const work::CallResult& /*result*/,
                         Outbox& out) {
  settle(now, out);
}

}  // namespace tenzro::node
