#include "tenzro/node/node.hpp"

#include "presence.hpp"
#include "repairs.hpp"

namespace tenzro::node {

fetch::Admission Node::admission_of(const work::PeerRequest& request) const {
  if (!may_fetch(request.from)) return fetch::Admission::refused;
  const auto asked = wire::decode_blob_request(request.bytes);
  return asked && repairs_->is_letting_go_of(asked->hash) ? fetch::Admission::later
                                                          : fetch::Admission::admitted;
}

void Node::on_peer_request(Instant now, work::PeerRequest request, Outbox& out) {
  switch (request.protocol) {
    case wire::Protocol::exec:
      serve_exec(now, std::move(request), out);
      break;
    case wire::Protocol::moe:
      serve_frame(now, std::move(request), out);
      break;
    case wire::Protocol::gossip:
      if (presence_ != nullptr) {
        presence_->on_request(now, request, out);
      } else {
        out.emplace_back(RefuseRequest{request.id});
      }
      break;
    case wire::Protocol::blob:
      serving_.on_request(now, request, admission_of(request), serving_out_);
      break;
  }
  settle(now, out);
}

void Node::on_peer_request_cancelled(Instant now, PeerRequestId request, Outbox& out) {
  if (peer_requests_.contains(request)) {
    ++totals_.peer_requests_cancelled;
    end_peer(request);
  }
  serving_.on_cancelled(request);
  settle(now, out);
}

void Node::on_peer_reply(Instant now, PeerCallId call, const work::CallResult& result,
                         Outbox& out) {
  if (presence_ != nullptr && presence_->on_reply(now, call, result, out)) return settle(now, out);
  if (fetches_.on_peer_reply(now, call, result, fetch_out_)) return settle(now, out);
  if (on_drop_reply(call, result, out)) return settle(now, out);
  const auto caller = callers_.extract(call);
  if (!caller) return;  // cancelled, or answered already
  const auto it = requests_.find(caller.mapped());
  if (it != requests_.end()) {
    forward::Outbox actions;
    std::get<ForwardWait>(it->second).flight->on_call_result(now, call, result, actions);
    queue_forward(caller.mapped(), std::move(actions));
  }
  settle(now, out);
}

}  // namespace tenzro::node
