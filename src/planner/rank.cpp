#include "rank.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tenzro::planner {
namespace {

/// One candidate with everything that decides about it.
struct Entry {
  const shards::Candidate* candidate = nullptr;
  bool is_self = false;
  bool is_doubtful = false;  ///< suspect or quarantined
  bool is_busy = false;
  Duration stall{0};       ///< who has stalled more often in a row comes later
  bool lacks_gpu = false;  ///< where one is wanted
  std::uint64_t load = 1;
  std::uint64_t lot = 0;

  [[nodiscard]] bool is_cold() const { return !candidate->holding->is_warm; }

  /// Smaller is better; equal ones are drawn from.
  [[nodiscard]] auto tier() const {
    return std::tuple(!is_self, is_doubtful, is_busy, stall, is_cold(), lacks_gpu);
  }
};

enum class Leaving : std::uint8_t { out, admitted };

/// What may serve at all, warmth aside.
bool is_usable(const shards::Candidate& candidate, bool is_self, Leaving leaving,
               const Options& options) {
  const shards::Provider& provider = *candidate.provider;
  if (options.excluded.contains(provider.address)) return false;
  const bool stays = leaving == Leaving::admitted || !provider.is_draining;
  // What it asks for itself it also serves while it leaves.
  if (is_self) return stays || options.prefers_self;
  const bool runs_profile =
      !options.profile || (provider.profiles >> static_cast<unsigned>(*options.profile) & 1U) != 0;
  return runs_profile && stays;
}

Entry judge(const shards::Candidate& candidate, bool is_self, bool is_hot, std::uint32_t rows,
            std::uint64_t draw, const Options& options) {
  const ProviderAddress& address = candidate.provider->address;
  Entry entry{.candidate = &candidate,
              .is_self = is_self && options.prefers_self,
              .lacks_gpu = is_hot && !candidate.provider->has_gpu,
              .lot = lot(draw, address)};
  if (is_self) return entry;
  entry.is_doubtful = candidate.provider->health == shards::Health::suspect;
  if (const ledger::Standings* standings = options.standings; standings != nullptr) {
    entry.is_doubtful = entry.is_doubtful || standings->is_quarantined(options.now, address);
    entry.is_busy = standings->is_busy(options.now, address);
    entry.stall = standings->stall(options.now, address);
    entry.load = standings->load(options.now, address, rows);
  }
  return entry;
}

std::vector<Entry> eligible(const std::vector<shards::Candidate>& candidates, std::uint32_t rows,
                            std::uint64_t draw, Leaving leaving, const Options& options) {
  const bool is_hot = std::any_of(candidates.begin(), candidates.end(), [&](const auto& c) {
    return c.provider->committed_tps >= options.hot_threshold_tps;
  });
  std::vector<Entry> entries;
  bool has_warm = false;
  for (const shards::Candidate& candidate : candidates) {
    const bool is_self = options.self == candidate.provider->address;
    if (!is_usable(candidate, is_self, leaving, options)) continue;
    entries.push_back(judge(candidate, is_self, is_hot, rows, draw, options));
    has_warm = has_warm || (candidate.holding->is_warm && !entries.back().is_doubtful);
  }
  const bool cold_allowed = options.allow_cold.value_or(!has_warm);
  std::erase_if(entries, [&](const Entry& entry) {
    return entry.is_cold() && !cold_allowed && options.self != entry.candidate->provider->address;
  });
  return entries;
}

/// 0: the same bytes; 1: as far as is told the same types; 2: others.
int strangeness(const shards::Holding& holding, const shards::Holding& primary) {
  constexpr BlobHash kUnknown{};
  if (holding.blob != kUnknown && holding.blob == primary.blob) return 0;
  return !holding.types || !primary.types || *holding.types == *primary.types ? 1 : 2;
}

/// Requires entries. Two of the best tier by lot, the lighter of them.
std::size_t choose_primary(const std::vector<Entry>& entries) {
  const auto by_tier = [](const Entry& a, const Entry& b) { return a.tier() < b.tier(); };
  const auto best = std::min_element(entries.begin(), entries.end(), by_tier)->tier();
  std::vector<std::size_t> drawn;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].tier() == best) drawn.push_back(i);
  }
  std::sort(drawn.begin(), drawn.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(entries[a].lot, entries[a].candidate->provider->address) <
           std::tuple(entries[b].lot, entries[b].candidate->provider->address);
  });
  const bool second_is_lighter =
      drawn.size() > 1 && entries[drawn[1]].load < entries[drawn[0]].load;
  return drawn[second_is_lighter ? 1 : 0];
}

Holder to_holder(const Entry& entry) {
  return {entry.candidate->provider->address, entry.candidate->holding->types,
          entry.candidate->holding->blob};
}

}  // namespace

std::vector<Holder> rank(const std::vector<shards::Candidate>& candidates, View::Slot slot,
                         std::uint32_t rows, const Options& options) {
  const std::uint64_t drawn = draw(options.request, slot);
  std::vector<Entry> entries = eligible(candidates, rows, drawn, Leaving::out, options);
  // Nobody else dependable is left: whoever is leaving still serves what only it holds.
  if (std::all_of(entries.begin(), entries.end(), [](const Entry& e) { return e.is_doubtful; }))
    entries = eligible(candidates, rows, drawn, Leaving::admitted, options);
  if (entries.empty()) return {};
  std::swap(entries.front(), entries[choose_primary(entries)]);
  const shards::Holding& primary = *entries.front().candidate->holding;
  std::sort(entries.begin() + 1, entries.end(), [&](const Entry& a, const Entry& b) {
    const auto key = [&](const Entry& e) {
      return std::tuple(e.is_doubtful, e.stall, strangeness(*e.candidate->holding, primary),
                        e.tier(), e.load, e.lot, e.candidate->provider->address);
    };
    return key(a) < key(b);
  });
  if (entries.size() > kStandbysMax + 1) entries.resize(kStandbysMax + 1);
  std::vector<Holder> holders;
  holders.reserve(entries.size());
  for (const Entry& entry : entries) holders.push_back(to_holder(entry));
  return holders;
}

}  // namespace tenzro::planner
