#pragma once
/// \file
/// Manifests: the blob hash of every held expert, in pages that are fetched on demand and kept.
///
/// A record names the root of its table of pages (wire/provider_record.hpp); a page is one (model,
/// layer). Pages are named by their SHA-256, so whoever has one may serve it, and unchanged ones
/// are fetched once. Rules
///  - Only models that this node cares for are fetched. Why: the whole mesh's pages are large.
///  - A page whose bytes do not hash to the wanted name is not taken.
/// Bounds: `bytes_max` of pages kept: beyond it nothing more is fetched. Cost: O(log n). Thread:
/// the owner's only. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/wire/gossip_message.hpp"

namespace tenzro::gossip {

[[nodiscard]] Hash32 page_name(std::span<const std::uint8_t> bytes);
/// The table of these pages.
[[nodiscard]] wire::Bytes make_table(const std::vector<wire::Bytes>& pages);

class Manifests {
 public:
  static constexpr std::size_t kBytesMax = 256U << 20U;
  static constexpr std::size_t kProvidersMax = 10'000;

  /// Pages of one provider that are wanted: their places in its table.
  struct Wish {
    Hash32 root{};
    std::size_t pages = 0;  ///< of the whole table
    std::set<std::size_t> places;
    friend bool operator==(const Wish&, const Wish&) = default;
  };

  void set_own(std::vector<wire::Bytes> pages);
  /// Replaces what was wanted of that provider. An empty wish forgets it.
  void wish(const ProviderAddress& provider, const Wish& wish);
  void forget(const ProviderAddress& provider);
  /// Names to ask that provider for next, at most `count`.
  [[nodiscard]] std::vector<Hash32> missing(const ProviderAddress& provider,
                                            std::size_t count) const;

  [[nodiscard]] const std::map<ProviderAddress, Wish>& wishes() const { return wishes_; }

  /// True where that page was among `asked`, and is kept.
  bool on_page(const wire::Bytes& bytes, const std::set<Hash32>& asked);
  [[nodiscard]] const wire::Bytes* find(const Hash32& name) const;
  /// The page at that place of the provider's table, where it is here.
  [[nodiscard]] const wire::Bytes* page(const ProviderAddress& provider, std::size_t place) const;

 private:
  void sweep();

  std::map<Hash32, wire::Bytes> own_;
  std::map<Hash32, wire::Bytes> kept_;
  std::map<ProviderAddress, Wish> wishes_;
  std::size_t bytes_ = 0;
  std::size_t swept_bytes_ = 0;
};

}  // namespace tenzro::gossip
