#pragma once
/// \file
/// Calls of the node to peers over HTTP: signs the body, posts it, and reads the status.
///
/// The answer is that of Node::on_peer_reply: the body of a 200; `busy` for a 503; io for any other
/// status and for what never arrived; no_space for a reply that is too large. What the body says is
/// not looked at: the forward verifies it. Signing a large body runs on the pool. Bound: the
/// client's calls. Thread: the loop's.
#include <functional>
#include <map>
#include <memory>

#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/exec/loop.hpp"
#include "tenzro/exec/pool.hpp"
#include "tenzro/http/client.hpp"
#include "tenzro/work/peer.hpp"

namespace tenzro::daemon {

class HttpCaller {
 public:
  /// Called once a call, never within `call`, unless it is cancelled first.
  using Done = std::function<void(PeerCallId, const work::CallResult&)>;

  /// All outlive the caller.
  HttpCaller(exec::Loop& loop, exec::Pool& pool, const crypto::KeyPair& key, http::Client& client,
             Done done);
  ~HttpCaller();
  HttpCaller(const HttpCaller&) = delete;
  HttpCaller& operator=(const HttpCaller&) = delete;

  void call(work::SendHttpCall call);
  /// Nothing where it is no call of this kind, or over.
  void cancel(PeerCallId call);

 private:
  void post(PeerCallId call, http::Post post);
  void finish(PeerCallId call, const work::CallResult& result);

  exec::Loop& loop_;
  exec::Pool& pool_;
  const crypto::KeyPair& key_;
  http::Client& client_;
  Done done_;
  /// Calls under way; without a value: being signed.
  std::map<PeerCallId, std::optional<http::CallRef>> calls_;
  std::shared_ptr<bool> alive_;
};

}  // namespace tenzro::daemon
