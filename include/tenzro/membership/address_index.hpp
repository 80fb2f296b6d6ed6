#pragma once
/// \file
/// Finds the entry of an address in a map that is ordered by address, in about two reads.
///
/// Why beside the map: every beat asks for its provider several times, and with thousands of
/// providers each walk down a tree is ten reads that no cache holds. Rules
///  - The first eight bytes of each address, as a number, stand sorted in one array. Addresses are
///    hashes, so where one stands can be reckoned; a guess that is off is widened in doubling
///    steps. Whoever makes addresses that spoil the guess costs a binary search, no more.
///  - Addresses with equal first bytes stay in the order of the map.
/// Cost: O(log n) a look-up at worst; an insertion or removal moves 16 bytes an entry. Thread: the
/// owner's only. Pure.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/wire/gossip_message.hpp"

namespace tenzro::membership {

/// `Place`: an iterator of the map.
template <typename Place>
class AddressIndex {
 public:
  void insert(Place place) {
    const std::uint64_t head = head_of(place->first);
    std::size_t at = lower_bound(head);
    while (at < entries_.size() && entries_[at].head == head &&
           entries_[at].place->first < place->first)
      ++at;
    entries_.insert(entries_.begin() + static_cast<std::ptrdiff_t>(at), {head, place});
  }

  void erase(Place place) {
    const std::uint64_t head = head_of(place->first);
    for (std::size_t at = lower_bound(head); is_at(at, head); ++at) {
      if (entries_[at].place != place) continue;
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
  }

  [[nodiscard]] std::optional<Place> find(const ProviderAddress& address) const {
    const std::uint64_t head = head_of(address);
    for (std::size_t at = lower_bound(head); is_at(at, head); ++at)
      if (entries_[at].place->first == address) return entries_[at].place;
    return std::nullopt;
  }

  /// The first address that starts so.
  [[nodiscard]] std::optional<Place> find(const wire::AddressPrefix& prefix) const {
    const std::uint64_t head = head_of(prefix);
    const std::size_t at = lower_bound(head);
    if (!is_at(at, head)) return std::nullopt;
    return entries_[at].place;
  }

 private:
  struct Entry {
    std::uint64_t head = 0;
    Place place;
  };

  /// Numbers are in the order of the addresses.
  template <typename Bytes>
  static std::uint64_t head_of(const Bytes& bytes) {
    std::uint64_t head = 0;
    for (std::size_t i = 0; i < sizeof(head); ++i) head = head << 8U | bytes[i];
    return head;
  }

  [[nodiscard]] bool is_at(std::size_t at, std::uint64_t head) const {
    return at < entries_.size() && entries_[at].head == head;
  }

  /// How many entries a range of numbers holds where they are spread evenly.
  [[nodiscard]] std::size_t share_of(std::uint64_t range) const {
    return static_cast<std::size_t>((range >> 32U) * entries_.size() >> 32U);
  }

  [[nodiscard]] std::size_t lower_bound(std::uint64_t head) const {
    const std::size_t count = entries_.size();
    if (count == 0) return 0;
    std::size_t at = share_of(head);
    // What stands there tells how many entries too early or too late it is.
    const std::uint64_t there = entries_[at].head;
    at = there < head ? std::min(count - 1, at + share_of(head - there))
                      : at - std::min(at, share_of(there - head));
    std::size_t low = at;
    std::size_t high = at;
    if (entries_[at].head < head) {
      for (std::size_t step = 1; high < count && entries_[high].head < head; step *= 2) {
        low = high + 1;
        high += step;
      }
    } else {
      for (std::size_t step = 1; low > 0 && entries_[low - 1].head >= head; step *= 2) {
        high = low - 1;
        low -= std::min(low, step);
      }
    }
    const auto first = entries_.begin();
    const auto found = std::lower_bound(
        first + static_cast<std::ptrdiff_t>(low),
        first + static_cast<std::ptrdiff_t>(std::min(high, count)), head,
        [](const Entry& entry, std::uint64_t value) { return entry.head < value; });
    return static_cast<std::size_t>(found - first);
  }

  std::vector<Entry> entries_;
};

}  // namespace tenzro::membership
