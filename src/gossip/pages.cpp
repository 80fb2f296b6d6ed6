// Pages of manifests, from whoever made them.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "tenzro/gossip/gossip.hpp"

namespace tenzro::gossip {
namespace {

constexpr std::size_t kPagesACall = 32;
/// After all calls were taken, or no address was known.
constexpr Duration kPagesAgain = std::chrono::milliseconds(300);

}  // namespace

void Gossip::want_pages(Instant now, const ProviderAddress& provider, const Manifests::Wish& wish) {
  const auto known = manifests_.wishes().find(provider);
  const bool is_new = known == manifests_.wishes().end() || known->second != wish;
  // A holder that had not read its own back when it was asked says the same of itself once it has.
  if (!is_new && manifests_.missing(provider, 1).empty()) return;
  if (is_new) manifests_.wish(provider, wish);
  ask_pages(provider, now);
}

void Gossip::ask_pages(const ProviderAddress& provider, Instant due) {
  pages_due_.insert_or_assign(provider, due);
  if (!pages_at_ || due < *pages_at_) pages_at_ = due;
}

void Gossip::fetch_pages(Instant now, Outbox& out) {
  pages_at_.reset();
  for (const auto& [provider, due] : std::exchange(pages_due_, {})) {
    if (due <= now) {
      fetch_pages_of(now, provider, out);
    } else {
      ask_pages(provider, due);
    }
  }
}

void Gossip::fetch_pages_of(Instant now, const ProviderAddress& provider, Outbox& out) {
  const membership::Peer* peer = members_.find(provider);
  if (peer == nullptr) return;
  if (!manifests_.wishes().contains(provider)) return;
  wire::GossipMessage message;
  message.pages_wanted = manifests_.missing(provider, kPagesACall);
  if (message.pages_wanted.empty()) {
    // Pages that it shares with others may have come from there.
    out.emplace_back(PagesArrived{provider});
    return;
  }
  const bool is_calling = std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    return entry.second.kind == CallKind::pages && entry.second.probed == provider;
  });
  if (is_calling) return ask_pages(provider, now + options_.call_timeout);
  const Call call{.kind = CallKind::pages, .probed = provider, .pages = message.pages_wanted};
  if (!send_to(now, peer->key, call, message, out)) ask_pages(provider, now + kPagesAgain);
}

void Gossip::take_pages(Instant now, const Call& call, const wire::GossipMessage& message,
                        Outbox& out) {
  const std::set<Hash32> asked(call.pages.begin(), call.pages.end());
  bool has_got = false;
  for (const wire::Bytes& page : message.pages) has_got |= manifests_.on_page(page, asked);
  // Who has not what its record names may have it later, or another may bring it.
  if (!has_got) return ask_pages(*call.probed, now + options_.membership.heartbeat);
  ask_pages(*call.probed, now);
  out.emplace_back(PagesArrived{*call.probed});
}

}  // namespace tenzro::gossip
