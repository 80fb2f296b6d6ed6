#include "tenzro/repair/repair.hpp"

#include <algorithm>
#include <tuple>

namespace tenzro::repair {
namespace {

/// A blob may be so much larger than what the model's experts are said to take.
constexpr std::uint64_t kOversizeMax = 8;
/// Failed fetches give way to other rows, within so many a place.
constexpr std::uint32_t kTriesPerAdmission = 4;
constexpr Duration kRateBurst = std::chrono::seconds(1);
/// A busy node looks again so much later.
constexpr Duration kBusyPause = std::chrono::milliseconds(200);
/// One without room looks again so much later, or when a fetch is over.
constexpr Duration kRoomPause = std::chrono::seconds(1);

/// From 0 to an eighth of the interval, by address: nodes that start together do not all ask at
/// once.
Duration phase_of(const ProviderAddress& address, Duration interval) {
  const auto draw = static_cast<std::int64_t>(address[0]) * 256 + address[1];
  return Duration(interval.count() / 8 * draw / 65'536);
}

}  // namespace

std::uint64_t expert_bytes(const shards::View& view, const ModelId& model,
                           const ProviderAddress& self) {
  std::vector<std::uint64_t> claims;
  for (const auto& [address, provider] : view.providers()) {
    const auto bytes = provider.expert_bytes.find(model);
    if (bytes == provider.expert_bytes.end() || bytes->second == 0) continue;
    const shards::View::Held* held = view.held(address);
    if (held == nullptr || !held->contains(model)) continue;
    if (address == self) return bytes->second;
    claims.push_back(bytes->second);
  }
  if (claims.empty()) return 0;
  const auto middle = claims.begin() + static_cast<std::ptrdiff_t>(claims.size() / 2);
  std::nth_element(claims.begin(), middle, claims.end());
  return *middle;
}

bool is_candidate(const shards::View& view, const shards::Provider& provider, const ModelId& model,
                  std::uint64_t expert_bytes) {
  if (!provider.repair_free_bytes || provider.is_draining) return false;
  if (*provider.repair_free_bytes < std::max<std::uint64_t>(1, expert_bytes)) return false;
  if (provider.repair_models.contains(model) || provider.repair_models.contains("*")) return true;
  const shards::View::Held* held = view.held(provider.address);
  return held != nullptr && held->contains(model);
}

void Repair::start(Instant now) {
  first_pass_ = now + std::max(options_.grace, options_.interval) +
                phase_of(options_.self, options_.interval);
  next_pass_ = first_pass_;
}

void Repair::stop(Outbox& out) {
  next_pass_.reset();
  work_due_.reset();
  scan_.reset();
  models_.clear();
  queue_.clear();
  for (const auto& [key, fetch] : fetching_) out.emplace_back(CancelFetch{key});
  totals_.fetches_cancelled += fetching_.size();
  fetching_.clear();
  reserved_bytes_ = 0;
}

void Repair::on_gone(Instant now, const ProviderAddress& address, shards::View::Held held) {
  const auto known = growth_.find(address);
  absent_.on_gone(now, address, std::move(held),
                  known == growth_.end() ? now : known->second.known_since);
}

void Repair::on_leaving(Instant now, const ProviderAddress& address) {
  std::erase_if(leavers_,
                [&](const auto& entry) { return entry.second + options_.interval <= now; });
  if (leavers_.size() >= kLeaversMax || !leavers_.emplace(address, now).second) return;
  if (!next_pass_ || scan_) return;
  const Instant soon = std::max(now + phase_of(options_.self, options_.interval),
                                pass_began_ + options_.interval / 8);
  next_pass_ = std::min(*next_pass_, std::max(first_pass_, soon));
}

void Repair::on_fetched(Instant now, const ExpertKey& key, const Result<std::uint64_t>& bytes) {
  const auto fetch = fetching_.extract(key);
  if (!fetch) return;
  reserved_bytes_ -= fetch.mapped().reserved_bytes;
  work_due_ = now;
  if (!bytes) {
    const bool is_unwanted = bytes.error().code == ErrorCode::cancelled;
    ++(is_unwanted ? totals_.fetches_cancelled : totals_.fetches_failed);
    const bool is_unusable =
        bytes.error().code == ErrorCode::no_space || bytes.error().code == ErrorCode::runtime;
    if (is_unusable && unusable_.size() < kTrackedMax)
      unusable_.insert_or_assign(key, Unusable{fetch.mapped().blob, pass_ + kUnusableFor});
    return;
  }
  ++admitted_;
  ++totals_.admitted;
  totals_.admitted_bytes += *bytes;
  // What was more than expected is paid for afterwards.
  const std::uint64_t expected = fetch.mapped().expected_bytes;
  if (*bytes > expected) rate_open_ = rate_open_ + time_of(*bytes - expected);
}

Duration Repair::time_of(std::uint64_t bytes) const {
  if (options_.bytes_per_s == 0) return Duration{0};
  constexpr std::uint64_t kBytesMax = 1ULL << 42U;  // so that microseconds of it fit
  const std::uint64_t us = std::min(bytes, kBytesMax) * 1'000'000 / options_.bytes_per_s;
  return Duration(static_cast<std::int64_t>(std::min<std::uint64_t>(us, 1ULL << 50U)));
}

bool Repair::cares_for(const shards::View& view, const ModelId& model) const {
  if (options_.models.contains(model) || options_.models.contains("*")) return true;
  const shards::View::Held* held = view.held(options_.self);
  return held != nullptr && held->contains(model);
}

Need Repair::need(const shards::View& view, const std::vector<shards::Candidate>& holders,
                  const ExpertKey& key) const {
  if (holders.empty() || !cares_for(view, key.model)) return {};
  const Copies copies =
      count_copies(holders, {key.layer, key.expert}, absent_.holders_of(key.model), options_.self);
  return copies.is_held_here ? Need{} : need_of(copies, options_.policy);
}

bool Repair::wants(const shards::View& view, const ExpertKey& key) const {
  return need(view, view.candidates(key), key).missing > 0;
}

std::optional<BlobHash> Repair::known_blob(const ExpertKey& key) const {
  const auto tracks = tracks_.find(key.model);
  if (tracks == tracks_.end()) return std::nullopt;
  const auto track = tracks->second.find({key.layer, key.expert});
  return track == tracks->second.end() ? std::nullopt : track->second.blob;
}

bool Repair::is_usable(const ExpertKey& key, const BlobHash& blob) const {
  const auto found = unusable_.find(key);
  return found == unusable_.end() || found->second.blob != blob || found->second.until <= pass_;
}

bool Repair::may_start(Instant now) const {
  if (queue_.empty()) return false;
  if (options_.bytes_per_s != 0)
    return fetching_.size() < options_.fetches_max && rate_open_ <= now;
  return fetching_.size() < options_.fetches_max &&
         fetching_.size() + admitted_ < options_.max_admissions &&
         started_ < options_.max_admissions * kTriesPerAdmission;
}

void Repair::start_fetches(Instant now, const shards::View& view, const Room& room, Outbox& out) {
  if (room.is_busy && !queue_.empty()) {
    work_due_ = now + kBusyPause;
    return;
  }
  for (std::size_t looked = 0; may_start(now); ++looked) {
    if (looked == kRowsPerTick) {
      work_due_ = now;
      return;
    }
    if (!start_fetch(now, view, queue_.front().key, room, out)) {
      work_due_ = now + kRoomPause;
      return;
    }
    queue_.pop_front();
  }
}

bool Repair::start_fetch(Instant now, const shards::View& view, const ExpertKey& key,
                         const Room& room, Outbox& out) {
  if (fetching_.contains(key)) return true;
  const std::vector<shards::Candidate> holders = view.candidates(key);
  if (need(view, holders, key).missing == 0) return true;
  const std::optional<BlobHash> blob = choose_blob(holders, known_blob(key)).blob;
  const std::uint64_t left = room.free_bytes - std::min(room.free_bytes, reserved_bytes_);
  const std::uint64_t expected = expert_bytes(view, key.model, options_.self);
  if (!blob || !is_usable(key, *blob)) return true;
  if (left < std::max<std::uint64_t>(1, expected)) return false;
  // Unknown: one at a time may take all there is.
  const std::uint64_t largest =
      expected == 0 || expected > left / kOversizeMax ? left : expected * kOversizeMax;
  fetching_.emplace(key, Fetch{*blob, expected, largest});
  reserved_bytes_ += largest;
  ++started_;
  ++totals_.fetches;
  rate_open_ = std::max(rate_open_, now + -kRateBurst) + time_of(expected);
  out.emplace_back(FetchExpert{key, *blob, largest});
  return true;
}

void Repair::on_tick(Instant now, const shards::View& view, const Room& room, Outbox& out) {
  if (!next_pass_) return;
  work_due_.reset();
  absent_.on_tick(now);
  if (!scan_ && *next_pass_ <= now) {
    if (room.doubts_view) {
      next_pass_ = now + options_.interval / 8;
    } else {
      begin_pass(now, view);
    }
  }
  if (scan_) slice(now, view, room, out);
  start_fetches(now, view, room, out);
}

std::optional<Instant> Repair::next_deadline() const {
  if (!next_pass_) return std::nullopt;
  Instant earliest = scan_ ? first_pass_ : *next_pass_;  // a slice is due at once
  if (work_due_) return std::min(earliest, *work_due_);
  if (!queue_.empty() && options_.bytes_per_s != 0 && fetching_.size() < options_.fetches_max)
    earliest = std::min(earliest, rate_open_);
  return earliest;
}

}  // namespace tenzro::repair
