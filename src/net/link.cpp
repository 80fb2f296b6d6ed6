#include "link.hpp"

#include <algorithm>
#include <utility>

namespace tenzro::net {

LinkKey LinkKey::of(const Target& target, wire::Protocol protocol) {
  LinkKey key{.id = target.id, .addresses = {}, .protocol = protocol};
  if (target.id) return key;
  for (const std::string& address : target.addresses) key.addresses += address + " ";
  return key;
}

Link::Link(asio::io_context& context, LinkKey key, const Target& target)
    : dialled_at_(target.addresses),
      key_(std::move(key)),
      last_error_{ErrorCode::io, {}, "the peer has no address"},
      resolver_(context),
      deadline_(context) {
  const std::size_t count = std::min(target.addresses.size(), kAddressesMax);
  for (std::size_t i = 0; i < count; ++i) addresses_.push_back(target.addresses[i]);
}

void Link::start(int family, Duration timeout, IsOwn is_own, Attempt attempt, GaveUp gave_up) {
  family_ = family;
  is_own_ = std::move(is_own);
  attempt_timeout_ =
      timeout / static_cast<std::int64_t>(std::max<std::size_t>(1, addresses_.size()));
  attempt_ = std::move(attempt);
  gave_up_ = std::move(gave_up);
  deadline_.expires_after(timeout);
  deadline_.async_wait([this, alive = is_alive_](std::error_code error) {
    if (error || !*alive) return;
    addresses_.clear();
    candidates_.clear();
    gave_up_({ErrorCode::io, last_error_.where, "no answer"});
  });
  step();
}

void Link::try_next(const Error& error) {
  connection = nullptr;
  note_failure(error);
  step();
}

void Link::note_failure(const Error& error) {
  const bool is_forbidden = error.code == ErrorCode::forbidden;
  if (is_forbidden && !was_only_forbidden_) return;
  was_only_forbidden_ = is_forbidden;
  last_error_ = error;
}

void Link::step() {
  while (!is_resolving_) {
    if (!candidates_.empty()) {
      const SocketAddress next = candidates_.front();
      candidates_.pop_front();
      if (attempt_(next, attempt_timeout_)) return;
      note_failure({ErrorCode::io, next.text(), "cannot be dialled"});
      continue;
    }
    if (addresses_.empty()) {
      deadline_.cancel();
      gave_up_(last_error_);
      return;
    }
    const std::string text = std::move(addresses_.front());
    addresses_.pop_front();
    const std::optional<HostPort> where = HostPort::parse(text);
    if (!where) {
      note_failure({ErrorCode::io, text.substr(0, 256), "not an address"});
      continue;
    }
    if (const auto numeric = SocketAddress::of(*where)) {
      add_candidate(*numeric);
    } else {
      resolve(*where);
    }
  }
}

void Link::add_candidate(const SocketAddress& address) {
  const auto reachable = address.for_family(family_);
  if (!reachable) {
    note_failure({ErrorCode::io, address.text(), "this endpoint listens on another IP version"});
  } else if (is_own_ && is_own_(*reachable)) {
    note_failure({ErrorCode::io, address.text(), "this endpoint listens there itself"});
  } else {
    candidates_.push_back(*reachable);
  }
}

void Link::resolve(const HostPort& where) {
  is_resolving_ = true;
  resolver_.async_resolve(
      where.host, std::to_string(where.port),
      [this, alive = is_alive_, host = where.host](
          std::error_code error, const asio::ip::udp::resolver::results_type& results) {
        if (!*alive) return;
        is_resolving_ = false;
        if (error) note_failure({ErrorCode::io, host, error.message()});
        std::size_t taken = 0;
        for (const auto& entry : results) {
          if (taken++ == kResolvedMax) break;
          const auto endpoint = entry.endpoint();
          add_candidate(SocketAddress(endpoint.data(), static_cast<socklen_t>(endpoint.size())));
        }
        step();
      });
}

void Link::on_connected(Connection& connected) {
  connection = &connected;
  addresses_.clear();
  candidates_.clear();
  deadline_.cancel();
  resolver_.cancel();
}

void Link::stop() {
  *is_alive_ = false;
  deadline_.cancel();
  resolver_.cancel();
}

}  // namespace tenzro::net
