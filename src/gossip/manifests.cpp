#include "tenzro/gossip/manifests.hpp"

#include <algorithm>

#include "tenzro/crypto/sha256.hpp"

namespace tenzro::gossip {
namespace {

constexpr std::size_t kNameBytes = 32;

std::optional<Hash32> name_at(const wire::Bytes& table, std::size_t place) {
  if ((place + 1) * kNameBytes > table.size()) return std::nullopt;
  Hash32 name;
  std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(place * kNameBytes), kNameBytes,
              name.begin());
  return name;
}

}  // namespace

Hash32 page_name(std::span<const std::uint8_t> bytes) {
  return crypto::sha256(bytes);
}

wire::Bytes make_table(const std::vector<wire::Bytes>& pages) {
  wire::Bytes table;
  table.reserve(pages.size() * kNameBytes);
  for (const wire::Bytes& page : pages) {
    const Hash32 name = page_name(page);
    table.insert(table.end(), name.begin(), name.end());
  }
  return table;
}

void Manifests::set_own(std::vector<wire::Bytes> pages) {
  own_.clear();
  wire::Bytes table = make_table(pages);
  own_.emplace(page_name(table), std::move(table));
  for (wire::Bytes& page : pages) {
    const Hash32 name = page_name(page);
    own_.emplace(name, std::move(page));
  }
}

void Manifests::wish(const ProviderAddress& provider, const Wish& wish) {
  if (wish.places.empty()) return forget(provider);
  if (wishes_.size() >= kProvidersMax && !wishes_.contains(provider)) return;
  wishes_.insert_or_assign(provider, wish);
}

void Manifests::forget(const ProviderAddress& provider) {
  wishes_.erase(provider);
  if (wishes_.empty()) {
    kept_.clear();
    bytes_ = 0;
    swept_bytes_ = 0;
  }
}

std::vector<Hash32> Manifests::missing(const ProviderAddress& provider, std::size_t count) const {
  const auto it = wishes_.find(provider);
  if (it == wishes_.end() || bytes_ >= kBytesMax) return {};
  const wire::Bytes* table = find(it->second.root);
  if (table == nullptr) return {it->second.root};
  std::set<Hash32> names;
  for (const std::size_t place : it->second.places) {
    if (names.size() >= count) break;
    const auto name = name_at(*table, place);
    if (name && find(*name) == nullptr) names.insert(*name);
  }
  return {names.begin(), names.end()};
}

bool Manifests::on_page(const wire::Bytes& bytes, const std::set<Hash32>& asked) {
  const Hash32 name = page_name(bytes);
  if (!asked.contains(name)) return false;
  if (bytes_ + bytes.size() > kBytesMax) sweep();
  if (bytes_ + bytes.size() > kBytesMax) return false;
  if (kept_.emplace(name, bytes).second) bytes_ += bytes.size();
  // Old pages go when what is kept has doubled since the last look.
  if (bytes_ > 2 * swept_bytes_ + (1U << 20U)) sweep();
  return true;
}

void Manifests::sweep() {
  std::set<Hash32> used;
  for (const auto& [provider, wish] : wishes_) {
    used.insert(wish.root);
    const wire::Bytes* table = find(wish.root);
    if (table == nullptr) continue;
    for (const std::size_t place : wish.places) {
      if (const auto name = name_at(*table, place)) used.insert(*name);
    }
  }
  for (auto it = kept_.begin(); it != kept_.end();) {
    if (used.contains(it->first)) {
      ++it;
      continue;
    }
    bytes_ -= it->second.size();
    it = kept_.erase(it);
  }
  swept_bytes_ = bytes_;
}

const wire::Bytes* Manifests::find(const Hash32& name) const {
  if (const auto own = own_.find(name); own != own_.end()) return &own->second;
  const auto kept = kept_.find(name);
  return kept == kept_.end() ? nullptr : &kept->second;
}

const wire::Bytes* Manifests::page(const ProviderAddress& provider, std::size_t place) const {
  const auto it = wishes_.find(provider);
  if (it == wishes_.end()) return nullptr;
  const wire::Bytes* table = find(it->second.root);
  if (table == nullptr) return nullptr;
  const auto name = name_at(*table, place);
  return name ? find(*name) : nullptr;
}

}  // namespace tenzro::gossip
