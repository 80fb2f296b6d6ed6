#pragma once
/// \file
/// Which experts deserve the memory: the order in which residents give way.
///
/// Two policies run beside each other over every use, as shadows: they know which items they would
/// hold in the same bytes, and hold nothing.
///   recent    exact least-recently-used.
///   frequent  most uses, halved every `kHalfLifeUses` uses an item of the shadow. A newcomer takes
///             a place only from items that were used less often than it was before. Why: a scan
///             of things used once takes nothing away, and a loop larger than the memory keeps a
///             part of itself.
/// The one with fewer misses leads; the real residents follow it: first those go that the leader
/// would not hold, then the leader's own first. Rules
///  - The leader changes when it has missed more often than the other by a share of the items that
///  fit, counted from where it was last level or ahead. So what real residents lose against either
///  policy is bounded by a few fillings of the memory a change, and noise changes nothing. Why two:
///  each of them alone has traces, scans or moving favourites, on which it loses badly.
///  - A newcomer that the leader does not hold is the first to go again: it is served, and costs no
///  hotter expert more than the moment.
///  - What the owner pins or uses is passed over; the shadows do not know of it.
///  - One use counts the same whatever the size: experts of a model are alike.
/// Integers only, no clock: time is counted in uses. Cost: a few list moves and look-ups among some
/// hundred ranks a use; a victim, beside the pinned ones passed over. Memory: about 100 bytes an
/// item. Thread: the owner's only. Pure.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace tenzro::holder {

/// A small number the owner gives an expert: the vector of items is as long as the largest.
enum class ItemId : std::uint32_t {};

class Retention {
 public:
  static constexpr std::uint64_t kHalfLifeUses = 32;

  enum class Policy : std::uint8_t { recent, frequent };

  explicit Retention(std::uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  void set_capacity(std::uint64_t bytes);
  /// Somebody asked for the item, wherever it is. `bytes`: what it takes in memory.
  void on_use(ItemId id, std::uint64_t bytes);
  /// It is in memory from now on.
  void on_enter(ItemId id);
  void on_leave(ItemId id);
  /// It is gone for good; the number may name another item from now on.
  void forget(ItemId id);

  /// The resident to give way next, of those that `is_free` allows; nothing where there is none.
  [[nodiscard]] std::optional<ItemId> victim(const std::function<bool(ItemId)>& is_free) const;

  [[nodiscard]] Policy leader() const { return static_cast<Policy>(leader_); }

 private:
  static constexpr std::size_t kPolicies = 2;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  /// Where an item stands with one policy; those that are neither kept nor resident are in no list.
  enum class Place : std::uint8_t { kept, kept_resident, resident, nowhere };
  static constexpr std::size_t kLists = 3;

  /// Of one policy.
  struct Link {
    std::uint32_t before = kNone;
    std::uint32_t after = kNone;
    Place place = Place::nowhere;
  };

  struct Item {
    std::uint64_t bytes = 0;
    std::uint64_t used = 0;   ///< number of the last use
    std::uint64_t uses = 0;   ///< fixed point, as of `epoch`
    std::uint64_t epoch = 0;  ///< when `uses` was halved last
    std::uint64_t rank = 0;   ///< grows with `uses`, and does not change with time
    std::array<Link, kPolicies> links;
  };

  /// Of items of one rank, least recently used first.
  struct List {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
  };

  using Ranks = std::map<std::uint64_t, List>;

  struct Shadow {
    std::array<Ranks, kLists> lists;  ///< by Place
    std::uint64_t bytes = 0;
    std::size_t items = 0;
  };

  [[nodiscard]] Item& item(ItemId id);
  [[nodiscard]] bool is_kept(std::size_t policy, std::uint32_t at) const;
  [[nodiscard]] std::uint64_t rank_in(std::size_t policy, const Item& item) const;
  void unlink(std::size_t policy, std::uint32_t at);
  void link(std::size_t policy, std::uint32_t at, Place place);
  void move_to(std::size_t policy, std::uint32_t at, Place place);
  void set_kept(std::size_t policy, std::uint32_t at, bool is_kept);
  void set_resident(std::uint32_t at, bool is_resident);
  /// The kept item to go first; the shadow must keep one.
  [[nodiscard]] std::uint32_t coldest(std::size_t policy) const;
  /// Of a list of the leader's.
  [[nodiscard]] std::optional<ItemId> first_free(const List& list,
                                                 const std::function<bool(ItemId)>& is_free) const;
  void shrink(std::size_t policy, std::uint64_t bytes_max);
  void admit(std::size_t policy, std::uint32_t at, std::uint64_t rank_before);
  void touch(Item& item);
  void judge(bool recent_hit, bool frequent_hit);

  std::uint64_t capacity_bytes_;
  std::vector<Item> items_;
  std::array<Shadow, kPolicies> shadows_;
  std::size_t leader_ = static_cast<std::size_t>(Policy::frequent);
  std::int64_t lag_ = 0;  ///< misses of the leader beyond the other's, since they were level
  std::uint64_t clock_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t epoch_ends_ = 0;
};

}  // namespace tenzro::holder
