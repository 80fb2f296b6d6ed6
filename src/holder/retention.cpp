#include "tenzro/holder/retention.hpp"

#include <algorithm>
#include <bit>

#include "tenzro/base/assert.hpp"

namespace tenzro::holder {
namespace {

constexpr std::size_t kRecent = static_cast<std::size_t>(Retention::Policy::recent);
constexpr std::size_t kFrequent = static_cast<std::size_t>(Retention::Policy::frequent);
constexpr unsigned kUseShift = 16;  ///< fraction bits of a count of uses
constexpr unsigned kRankShift = 4;  ///< fraction bits of a rank: counts within 4 % are alike
/// The leader may lag by one in so many of the items that fit, and always by `kLagMin` misses.
constexpr std::int64_t kLagShare = 8;
constexpr std::int64_t kLagMin = 16;
/// An epoch lasts as long for an empty memory as for one of so many items.
constexpr std::uint64_t kEpochItemsMin = 64;

/// log2 of a count, fixed point, linear between powers of two: it grows with the count, and one
/// halving is exactly one power less.
std::uint64_t log2_of(std::uint64_t count) {
  const unsigned whole = static_cast<unsigned>(std::bit_width(count | 1U)) - 1;
  const std::uint64_t rest = count - (count == 0 ? 0 : std::uint64_t{1} << whole);
  const std::uint64_t fraction =
      whole >= kRankShift ? rest >> (whole - kRankShift) : rest << (kRankShift - whole);
  return (std::uint64_t{whole} << kRankShift) + fraction;
}

}  // namespace

Retention::Item& Retention::item(ItemId id) {
  const auto at = static_cast<std::size_t>(id);
  if (at >= items_.size()) items_.resize(at + 1);
  return items_[at];
}

bool Retention::is_kept(std::size_t policy, std::uint32_t at) const {
  const Place place = items_[at].links[policy].place;
  return place == Place::kept || place == Place::kept_resident;
}

std::uint64_t Retention::rank_in(std::size_t policy, const Item& item) const {
  return policy == kFrequent ? item.rank : 0;
}

void Retention::unlink(std::size_t policy, std::uint32_t at) {
  Item& item = items_[at];
  Link& link = item.links[policy];
  if (link.place == Place::nowhere) return;
  Ranks& ranks = shadows_[policy].lists[static_cast<std::size_t>(link.place)];
  const auto list = ranks.find(rank_in(policy, item));
  TENZRO_ASSERT(list != ranks.end());
  (link.before == kNone ? list->second.first : items_[link.before].links[policy].after) =
      link.after;
  (link.after == kNone ? list->second.last : items_[link.after].links[policy].before) = link.before;
  if (list->second.first == kNone) ranks.erase(list);
  link = {};
}

void Retention::link(std::size_t policy, std::uint32_t at, Place place) {
  Item& item = items_[at];
  Link& link = item.links[policy];
  link.place = place;
  if (place == Place::nowhere) return;
  List& list = shadows_[policy].lists[static_cast<std::size_t>(place)][rank_in(policy, item)];
  // Nearly always the newest or the oldest of its list.
  std::uint32_t before = list.last;
  if (list.first != kNone && item.used < items_[list.first].used) before = kNone;
  while (before != kNone && items_[before].used > item.used)
    before = items_[before].links[policy].before;
  link.before = before;
  link.after = before == kNone ? list.first : items_[before].links[policy].after;
  (before == kNone ? list.first : items_[before].links[policy].after) = at;
  (link.after == kNone ? list.last : items_[link.after].links[policy].before) = at;
}

void Retention::move_to(std::size_t policy, std::uint32_t at, Place place) {
  unlink(policy, at);
  link(policy, at, place);
}

void Retention::set_kept(std::size_t policy, std::uint32_t at, bool is_kept) {
  const Place place = items_[at].links[policy].place;
  const bool is_resident = place == Place::resident || place == Place::kept_resident;
  Shadow& shadow = shadows_[policy];
  if (is_kept) {
    shadow.bytes += items_[at].bytes;
    ++shadow.items;
    move_to(policy, at, is_resident ? Place::kept_resident : Place::kept);
  } else {
    shadow.bytes -= items_[at].bytes;
    --shadow.items;
    move_to(policy, at, is_resident ? Place::resident : Place::nowhere);
  }
}

void Retention::set_resident(std::uint32_t at, bool is_resident) {
  for (std::size_t policy = 0; policy < kPolicies; ++policy) {
    const bool kept = is_kept(policy, at);
    if (is_resident) {
      move_to(policy, at, kept ? Place::kept_resident : Place::resident);
    } else {
      move_to(policy, at, kept ? Place::kept : Place::nowhere);
    }
  }
}

std::uint32_t Retention::coldest(std::size_t policy) const {
  const auto& lists = shadows_[policy].lists;
  const Ranks& away = lists[static_cast<std::size_t>(Place::kept)];
  const Ranks& here = lists[static_cast<std::size_t>(Place::kept_resident)];
  if (away.empty()) return here.begin()->second.first;
  if (here.empty()) return away.begin()->second.first;
  const auto& [away_rank, away_list] = *away.begin();
  const auto& [here_rank, here_list] = *here.begin();
  if (away_rank != here_rank) return away_rank < here_rank ? away_list.first : here_list.first;
  return items_[away_list.first].used < items_[here_list.first].used ? away_list.first
                                                                     : here_list.first;
}

void Retention::shrink(std::size_t policy, std::uint64_t bytes_max) {
  while (shadows_[policy].bytes > bytes_max) set_kept(policy, coldest(policy), false);
}

void Retention::set_capacity(std::uint64_t bytes) {
  capacity_bytes_ = bytes;
  for (std::size_t policy = 0; policy < kPolicies; ++policy) shrink(policy, bytes);
}

void Retention::touch(Item& item) {
  ++clock_;
  if (clock_ > epoch_ends_) {
    const std::uint64_t items = std::max<std::uint64_t>(shadows_[kFrequent].items, kEpochItemsMin);
    epoch_ends_ = clock_ + items * kHalfLifeUses;
    ++epoch_;
  }
  const std::uint64_t halvings = std::min<std::uint64_t>(epoch_ - item.epoch, 63);
  item.uses = (item.uses >> halvings) + (std::uint64_t{1} << kUseShift);
  item.epoch = epoch_;
  item.used = clock_;
  item.rank = (epoch_ << kRankShift) + log2_of(item.uses);
}

void Retention::on_use(ItemId id, std::uint64_t bytes) {
  Item& used = item(id);
  const auto at = static_cast<std::uint32_t>(id);
  const std::uint64_t rank_before = used.rank;
  const std::array<bool, kPolicies> was_kept{is_kept(kRecent, at), is_kept(kFrequent, at)};
  std::array<Place, kPolicies> places{};
  for (std::size_t policy = 0; policy < kPolicies; ++policy) {
    places[policy] = used.links[policy].place;
    unlink(policy, at);
    if (was_kept[policy]) shadows_[policy].bytes += bytes - used.bytes;  // wraps back
  }
  used.bytes = bytes;
  touch(used);
  for (std::size_t policy = 0; policy < kPolicies; ++policy) {
    link(policy, at, places[policy]);
    if (was_kept[policy]) {
      shrink(policy, capacity_bytes_);  // it may have grown
    } else {
      admit(policy, at, rank_before);
    }
  }
  judge(was_kept[kRecent], was_kept[kFrequent]);
}

void Retention::admit(std::size_t policy, std::uint32_t at, std::uint64_t rank_before) {
  const std::uint64_t bytes = items_[at].bytes;
  if (bytes > capacity_bytes_) return;
  while (shadows_[policy].bytes + bytes > capacity_bytes_) {
    const std::uint32_t cold = coldest(policy);
    if (policy == kFrequent && items_[cold].rank >= rank_before) return;
    set_kept(policy, cold, false);
  }
  set_kept(policy, at, true);
}

void Retention::judge(bool recent_hit, bool frequent_hit) {
  if (recent_hit == frequent_hit) return;
  const bool leader_hit = leader_ == kRecent ? recent_hit : frequent_hit;
  lag_ = std::max<std::int64_t>(lag_ + (leader_hit ? -1 : 1), 0);
  const auto items = static_cast<std::int64_t>(shadows_[leader_].items);
  if (lag_ <= std::max(items / kLagShare, kLagMin)) return;
  leader_ = leader_ == kRecent ? kFrequent : kRecent;
  lag_ = 0;
}

void Retention::on_enter(ItemId id) {
  static_cast<void>(item(id));  // makes it
  set_resident(static_cast<std::uint32_t>(id), true);
}

void Retention::on_leave(ItemId id) {
  static_cast<void>(item(id));
  set_resident(static_cast<std::uint32_t>(id), false);
}

void Retention::forget(ItemId id) {
  static_cast<void>(item(id));
  const auto at = static_cast<std::uint32_t>(id);
  set_resident(at, false);
  for (std::size_t policy = 0; policy < kPolicies; ++policy) {
    if (is_kept(policy, at)) set_kept(policy, at, false);
  }
  items_[at] = {};
}

std::optional<ItemId> Retention::victim(const std::function<bool(ItemId)>& is_free) const {
  const Shadow& leader = shadows_[leader_];
  for (const Place place : {Place::resident, Place::kept_resident}) {
    for (const auto& [rank, list] : leader.lists[static_cast<std::size_t>(place)]) {
      if (const auto free = first_free(list, is_free)) return free;
    }
  }
  return std::nullopt;
}

std::optional<ItemId> Retention::first_free(const List& list,
                                            const std::function<bool(ItemId)>& is_free) const {
  for (std::uint32_t at = list.first; at != kNone; at = items_[at].links[leader_].after) {
    if (is_free(ItemId{at})) return ItemId{at};
  }
  return std::nullopt;
}

}  // namespace tenzro::holder
