#include "harness.hpp"

#include <chrono>
#include <stdexcept>

#include "tenzro/base/bytes.hpp"
#include "tenzro/base/prng.hpp"

namespace tenzro::net {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

crypto::KeyPair key_of(std::uint8_t seed) {
  crypto::Seed bytes{};
  bytes.fill(seed);
  return crypto::KeyPair::from_seed(bytes);
}

}  // namespace

Peer::Peer(exec::Loop& loop, std::uint8_t seed, Options options, Seams seams) : key_(key_of(seed)) {
  if (options.listen == Options{}.listen) options.listen = "127.0.0.1:0";
  auto made = listen_with(loop, key_, options, *this, std::move(seams));
  if (!made) throw std::runtime_error(made.error().message());
  endpoint_ = std::move(*made);
}

Target Peer::target() const {
  return {.id = key_.public_key(), .addresses = {endpoint_->address()}};
}

PeerCallId Peer::call(const Target& target, std::string_view text, wire::Protocol protocol) {
  return call(target, {BufferRef::copy_of(text)}, protocol);
}

PeerCallId Peer::call(const Target& target, std::vector<BufferRef> parts, wire::Protocol protocol) {
  const PeerCallId id{next_call_++};
  is_calling = true;
  endpoint_->call(id, target, protocol, std::move(parts));
  is_calling = false;
  return id;
}

const Result<Reply>* Peer::ended(PeerCallId call) const {
  const auto found = ended_.find(call);
  return found == ended_.end() ? nullptr : &found->second;
}

void Peer::on_reply(PeerCallId call, Result<Reply> reply) {
  was_reentered = was_reentered || is_calling;
  if (!ended_.emplace(call, std::move(reply)).second) throw std::logic_error("ended twice");
  ++replies;
  if (on_reply_do) on_reply_do();
}

void Peer::on_request(Request request) {
  was_reentered = was_reentered || is_calling;
  if (echoes) {
    endpoint_->reply(request.id, {request.bytes});
  }
  if (on_request_do) on_request_do(request);
  requests.push_back(std::move(request));
}

void Peer::on_request_cancelled(PeerRequestId request) {
  was_reentered = was_reentered || is_calling;
  cancelled.push_back(request);
}

bool run_until(exec::Loop& loop, const std::function<bool()>& is_true) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    loop.context().run_one_for(std::chrono::milliseconds(100));
  }
  return true;
}

void settle(exec::Loop& loop) {
  while (loop.context().poll() != 0) {
  }
}

BufferRef pattern(std::size_t size, std::uint32_t seed) {
  BufferRef buffer = BufferRef::allocate(size);
  Prng prng(seed);
  for (std::byte& byte : buffer.mutable_bytes()) byte = static_cast<std::byte>(prng.below(256));
  return buffer;
}

}  // namespace tenzro::net
