// Pages of manifests, from whoever made them.
#include <algorithm>
#include <utility>

#include "tenzro/gossip/gossip.hpp"

namespace tenzro::gossip {
namespace {

constexpr std::size_t kPagesACall = 32;

}  // namespace

void Gossip::want_pages(Instant now, const ProviderAddress& provider, const Manifests::Wish& wish) {
  const auto known = manifests_.wishes().find(provider);
  if (known != manifests_.wishes().end() && known->second == wish) return;
  manifests_.wish(provider, wish);
  pages_due_.insert(provider);
  if (!pages_at_ || now < *pages_at_) pages_at_ = now;
}

void Gossip::fetch_pages(Instant now, Outbox& out) {
  pages_at_.reset();
  std::set<ProviderAddress> later;
  for (const ProviderAddress& provider : pages_due_) {
    const membership::Peer* peer = members_.find(provider);
    if (peer == nullptr) continue;
    wire::GossipMessage message;
    message.pages_wanted = manifests_.missing(provider, kPagesACall);
    if (message.pages_wanted.empty()) continue;
    const bool is_calling = std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
      return entry.second.kind == CallKind::pages && entry.second.probed == provider;
    });
    if (is_calling ||
        !send_to(now, peer->key,
                 Call{.kind = CallKind::pages, .probed = provider, .pages = message.pages_wanted},
                 message, out)) {
      later.insert(provider);
    }
  }
  pages_due_ = std::move(later);
  if (!pages_due_.empty()) pages_at_ = now + options_.call_timeout;
}

}  // namespace tenzro::gossip
