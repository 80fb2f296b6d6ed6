#pragma once
// Endpoints on one loop, which the test drives itself: nothing sleeps, nothing runs beside it.
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/net/endpoint.hpp"

#include "endpoint_state.hpp"

namespace tenzro::net {

/// An endpoint on a free loopback port, and everything its handler heard.
class Peer final : public Handler {
 public:
  /// `seed` makes the key.
  Peer(exec::Loop& loop, std::uint8_t seed, Options options = {}, Seams seams = {});

  [[nodiscard]] Target target() const;

  [[nodiscard]] const EndpointId& id() const { return key_.public_key(); }

  [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }

  /// Calls with the next free id.
  PeerCallId call(const Target& target, std::string_view text,
                  wire::Protocol protocol = wire::Protocol::moe);
  PeerCallId call(const Target& target, std::vector<BufferRef> parts, wire::Protocol protocol);
  /// What a call ended with; null until it has.
  [[nodiscard]] const Result<Reply>* ended(PeerCallId call) const;

  void destroy() { endpoint_.reset(); }

  void on_reply(PeerCallId call, Result<Reply> reply) override;
  void on_request(Request request) override;
  void on_request_cancelled(PeerRequestId request) override;

  /// Answers every request with its own bytes, at once.
  bool echoes = false;
  std::function<void(const Request&)> on_request_do;
  std::function<void()> on_reply_do;
  std::deque<Request> requests;
  std::vector<PeerRequestId> cancelled;
  std::size_t replies = 0;
  bool is_calling = false;  ///< a call of the endpoint is on the stack
  bool was_reentered = false;

 private:
  crypto::KeyPair key_;
  std::unique_ptr<Endpoint> endpoint_;
  std::map<PeerCallId, Result<Reply>> ended_;
  std::uint64_t next_call_ = 1;
};

/// Serves the loop until `is_true`; false where that takes longer than any machine should need.
[[nodiscard]] bool run_until(exec::Loop& loop, const std::function<bool()>& is_true);
/// Serves what is ready now, and what that makes ready.
void settle(exec::Loop& loop);

/// `size` bytes that no shift or repetition leaves equal.
[[nodiscard]] BufferRef pattern(std::size_t size, std::uint32_t seed = 1);

}  // namespace tenzro::net
