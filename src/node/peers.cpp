#include "tenzro/node/node.hpp"

#include "mesh.hpp"

namespace tenzro::node {

void Node::on_peer_request(Instant now, work::PeerRequest request, Outbox& out) {
  if (request.protocol == wire::Protocol::gossip && mesh_ != nullptr) {
    mesh_->on_request(now, request, out);
  } else {
    out.emplace_back(RefuseRequest{request.id});
  }
  settle(now, out);
}

void Node::on_peer_request_cancelled(Instant now, PeerRequestId /*request*/, Outbox& out) {
  settle(now, out);
}

void Node::on_peer_reply(Instant now, PeerCallId call, const work::CallResult& result,
                         Outbox& out) {
  if (mesh_ != nullptr) mesh_->on_reply(now, call, result, out);
  settle(now, out);
}

}  // namespace tenzro::node
