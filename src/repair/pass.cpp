// Repair: one pass over the view, slice by slice.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "tenzro/repair/repair.hpp"

namespace tenzro::repair {
namespace {

constexpr Duration kUrgentMin = std::chrono::seconds(1);
constexpr int kUrgentShare = 8;

bool holds(const std::vector<shards::Candidate>& holders, const ProviderAddress& address) {
  return std::any_of(holders.begin(), holders.end(), [&](const shards::Candidate& holder) {
    return holder.provider->address == address;
  });
}

/// Holders that are alive and stay, the one to let go of its copy first. Which tier a copy is on
/// has no say: nodes hear of tiers at different times, and two would drop for each other.
std::vector<ProviderAddress> order_of_dropping(const ExpertKey& key,
                                               const std::vector<shards::Candidate>& holders) {
  std::vector<Contender> contenders;
  for (const shards::Candidate& holder : holders) {
    const shards::Provider& provider = *holder.provider;
    if (provider.is_draining || provider.health != shards::Health::alive) continue;
    contenders.push_back(make_contender(provider.address));
  }
  std::vector<ProviderAddress> order = rank(key, contenders);
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

void Repair::begin_pass(Instant now, const shards::View& view) {
  ++pass_;
  pass_began_ = now;
  ++totals_.passes;
  next_pass_ = now + options_.interval;
  is_urgent_ = false;
  found_ = {};
  rows_.clear();
  drops_.clear();
  note_growth(view);
  for (ModelId& model : view.models()) {
    if (cares_for(view, model)) models_.push_back(std::move(model));
  }
  scan_ = Scan{};
  begin_model(view);
}

void Repair::note_growth(const shards::View& view) {
  for (const auto& [address, provider] : view.providers()) {
    std::size_t holdings = 0;
    if (const shards::View::Held* held = view.held(address)) {
      for (const auto& [model, slots] : *held) holdings += slots.size();
    }
    Growth& growth = growth_.try_emplace(address, Growth{.known_since = pass_began_}).first->second;
    if (holdings > growth.holdings) growth.pass = pass_;
    growth.holdings = holdings;
    growth.seen = pass_;
  }
  std::erase_if(growth_, [&](const auto& entry) { return entry.second.seen != pass_; });
}

/// The first of `models_`, if there is one.
void Repair::begin_model(const shards::View& view) {
  if (models_.empty()) return;
  *scan_ = Scan{.model = models_.front()};
  const std::uint64_t bytes = expert_bytes(view, scan_->model, options_.self);
  for (const auto& [address, provider] : view.providers()) {
    if (!is_candidate(view, provider, scan_->model, bytes)) continue;
    scan_->candidates.push_back(make_contender(address));
    scan_->is_candidate = scan_->is_candidate || address == options_.self;
  }
}

void Repair::slice(Instant now, const shards::View& view, const Room& room, Outbox& out) {
  std::size_t left = options_.slots_per_slice;
  scores_ = 0;
  while (left > 0 && scores_ < kScoresPerSlice && !models_.empty()) {
    const auto slots = view.slots_after(scan_->model, scan_->after, left);
    const auto absent = absent_.holders_of(scan_->model);
    std::size_t examined = 0;
    for (const auto& [slot, holders] : slots) {
      if (scores_ >= kScoresPerSlice) break;
      examine(slot, holders, absent);
      scan_->after = slot;
      ++examined;
    }
    if (examined == slots.size() && slots.size() < left) {
      models_.pop_front();
      begin_model(view);
    }
    left -= std::min(left, std::max<std::size_t>(1, examined));
  }
  if (models_.empty()) end_pass(now, view, room, out);
}

void Repair::examine(shards::View::Slot slot, const std::vector<shards::Candidate>& holders,
                     const std::vector<Absent::Holder>& absent) {
  const Copies copies = count_copies(holders, slot, absent, options_.self);
  const Need need = need_of(copies, options_.policy);
  if (need.missing > 0) {
    if (!need.is_hot) ++found_.under_replicated;
    if (!need.is_hot && copies.staying <= 1) ++found_.one_holder;
    if (!copies.is_held_here && scan_->is_candidate)
      examine_missing(slot, holders, need.missing, copies);
  } else if (copies.is_held_here && copies.alive > options_.policy.max_replication) {
    examine_surplus({scan_->model, slot.first, slot.second}, holders);
  }
}

void Repair::examine_missing(shards::View::Slot slot, const std::vector<shards::Candidate>& holders,
                             std::size_t missing, const Copies& copies) {
  const BlobChoice choice =
      choose_blob(holders, known_blob({scan_->model, slot.first, slot.second}));
  if (choice.is_disputed) ++found_.disputed;
  if (!choice.blob && !choice.is_disputed) return;
  if (copies.staying == 0) is_urgent_ = true;
  ExpertKey key{scan_->model, slot.first, slot.second};
  auto& tracks = tracks_[scan_->model];
  auto known = tracks.find(slot);
  if (known == tracks.end() && tracked_ < kTrackedMax) {
    known = tracks.emplace(slot, Track{}).first;
    ++tracked_;
  }
  Track* const track = known == tracks.end() ? nullptr : &known->second;
  if (track != nullptr && !track->blob) track->blob = choice.blob;
  if (!choice.blob) {
    if (track != nullptr) track->seen = pass_;
    return;
  }
  const bool is_of_use = is_usable(key, *choice.blob);
  std::vector<Contender> contenders;
  contenders.reserve(scan_->candidates.size());
  for (const Contender& candidate : scan_->candidates) {
    if (!is_of_use && candidate.address == options_.self) continue;
    if (!holds(holders, candidate.address)) contenders.push_back(candidate);
  }
  scores_ += contenders.size();
  if (!names_self(rank(key, contenders), missing, track)) return;
  ++found_.named_here;
  if (rows_.size() < kRowsMax) rows_.push_back({std::move(key), copies.staying, copies.rate_max});
}

bool Repair::names_self(const std::vector<ProviderAddress>& ranked, std::size_t missing,
                        Track* track) {
  bool is_named = false;
  std::map<ProviderAddress, std::uint64_t> named;
  for (const ProviderAddress& address : ranked) {
    if (named.size() == missing) break;
    const std::optional<std::uint64_t> since =
        track == nullptr ? pass_ : named_since(*track, address);
    if (!since) continue;
    named.emplace(address, *since);
    is_named = is_named || address == options_.self;
  }
  if (track != nullptr) {
    track->named = std::move(named);
    track->seen = pass_;
  }
  return is_named;
}

std::optional<std::uint64_t> Repair::named_since(Track& track, const ProviderAddress& address) {
  if (const auto over = track.passed_over.find(address); over != track.passed_over.end()) {
    if (over->second > pass_) return std::nullopt;
    track.passed_over.erase(over);
  }
  const auto before = track.named.find(address);
  const std::uint64_t since = before == track.named.end() ? pass_ : before->second;
  const auto growth = growth_.find(address);
  const std::uint64_t grew = growth == growth_.end() ? 0 : growth->second.pass;
  if (pass_ - std::max(since, grew) < kPatience) return since;
  track.passed_over.emplace(address, pass_ + kPassedOverFor);
  ++totals_.passed_over;
  return std::nullopt;
}

void Repair::examine_surplus(const ExpertKey& key, const std::vector<shards::Candidate>& holders) {
  scores_ += holders.size();
  std::vector<ProviderAddress> order = order_of_dropping(key, holders);
  if (order.size() <= options_.policy.max_replication) return;
  const auto first_kept =
      order.end() - static_cast<std::ptrdiff_t>(options_.policy.max_replication);
  if (std::find(order.begin(), first_kept, options_.self) == first_kept) return;
  ++found_.surplus;
  const auto before = surplus_.find(key);
  const bool stood = before != surplus_.end() && before->second + 1 == pass_;
  if (before == surplus_.end() && surplus_.size() >= kTrackedMax) return;
  surplus_[key] = pass_;
  const auto own = std::find_if(holders.begin(), holders.end(), [&](const auto& holder) {
    return holder.provider->address == options_.self;
  });
  // Bytes that cannot be fetched again are kept: nobody else could prove to have them.
  if (!options_.drops_surplus || !stood || own->holding->blob == BlobHash{}) return;
  if (const auto tried = tried_.find(key); tried != tried_.end() && tried->second > pass_) return;
  if (drops_.size() < kRowsMax)
    drops_.push_back({key, own->holding->blob, {first_kept, order.end()}});
}

void Repair::drop_coldest(const Room& room, Outbox& out) {
  const std::size_t most =
      std::min<std::size_t>(drops_.size(), std::max<std::uint32_t>(1, options_.max_admissions));
  std::vector<std::pair<std::uint64_t, std::size_t>> by_use;
  by_use.reserve(drops_.size());
  for (std::size_t i = 0; i < drops_.size(); ++i)
    by_use.emplace_back(room.last_use ? room.last_use(drops_[i].key) : 0, i);
  const auto end = by_use.begin() + static_cast<std::ptrdiff_t>(most);
  std::partial_sort(by_use.begin(), end, by_use.end());
  std::erase_if(tried_, [&](const auto& entry) { return entry.second <= pass_; });
  for (auto it = by_use.begin(); it != end; ++it) {
    DropExpert& drop = drops_[it->second];
    if (tried_.size() < kTrackedMax) tried_.emplace(drop.key, pass_ + kPassedOverFor);
    out.emplace_back(std::move(drop));
  }
  totals_.drops += most;
  drops_ = {};
}

void Repair::end_pass(Instant now, const shards::View& view, const Room& room, Outbox& out) {
  scan_.reset();
  drop_coldest(room, out);
  std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return std::tie(a.staying, b.rate, a.key) < std::tie(b.staying, a.rate, b.key);
  });
  queue_.assign(rows_.begin(), rows_.end());
  rows_ = {};
  findings_ = found_;
  admitted_ = 0;
  started_ = static_cast<std::uint32_t>(fetching_.size());
  if (is_urgent_)
    next_pass_ =
        std::min(*next_pass_, now + std::max(kUrgentMin, options_.interval / kUrgentShare));
  tracked_ = 0;
  for (auto& [model, tracks] : tracks_) {
    std::erase_if(tracks, [&](const auto& entry) { return entry.second.seen != pass_; });
    tracked_ += tracks.size();
  }
  std::erase_if(tracks_, [](const auto& entry) { return entry.second.empty(); });
  std::erase_if(unusable_, [&](const auto& entry) { return entry.second.until <= pass_; });
  std::erase_if(surplus_, [&](const auto& entry) { return entry.second != pass_; });
  for (auto it = fetching_.begin(); it != fetching_.end();) {
    if (wants(view, it->first)) {
      ++it;
      continue;
    }
    out.emplace_back(CancelFetch{it->first});
    ++totals_.fetches_cancelled;
    reserved_bytes_ -= it->second.reserved_bytes;
    it = fetching_.erase(it);
  }
}

}  // namespace tenzro::repair
