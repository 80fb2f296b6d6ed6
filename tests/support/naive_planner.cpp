#include "support/naive_planner.hpp"

#include <functional>
#include <optional>

namespace tenzro::testing {
namespace {

using shards::Candidate;
using Candidates = std::vector<Candidate>;
using Question = std::function<bool(const Candidate&)>;

/// The questions a planner asks of a candidate.
struct Oracle {
  const planner::Options& options;
  std::uint64_t draw = 0;
  std::uint32_t rows = 0;
  bool is_hot = false;

  [[nodiscard]] bool is_self(const Candidate& c) const {
    return options.self && *options.self == c.provider->address;
  }

  [[nodiscard]] bool is_doubtful(const Candidate& c) const {
    if (is_self(c)) return false;
    if (c.provider->health == shards::Health::suspect) return true;
    return options.standings != nullptr &&
           options.standings->is_quarantined(options.now, c.provider->address);
  }

  [[nodiscard]] bool is_busy(const Candidate& c) const {
    return !is_self(c) && options.standings != nullptr &&
           options.standings->is_busy(options.now, c.provider->address);
  }

  [[nodiscard]] Duration stall(const Candidate& c) const {
    if (is_self(c) || options.standings == nullptr) return Duration{0};
    return options.standings->stall(options.now, c.provider->address);
  }

  [[nodiscard]] std::uint64_t load(const Candidate& c) const {
    if (is_self(c) || options.standings == nullptr) return 1;
    return options.standings->load(options.now, c.provider->address, rows);
  }

  [[nodiscard]] std::uint64_t lot(const Candidate& c) const {
    return planner::lot(draw, c.provider->address);
  }

  /// In the order in which they count; a yes is better than a no.
  [[nodiscard]] std::vector<Question> tier() const {
    return {[this](const Candidate& c) { return options.prefers_self && is_self(c); },
            [this](const Candidate& c) { return !is_doubtful(c); },
            [this](const Candidate& c) { return !is_busy(c); },
            [this](const Candidate& c) { return stall(c) <= std::chrono::seconds(0); },
            [this](const Candidate& c) { return stall(c) <= std::chrono::milliseconds(500); },
            [this](const Candidate& c) { return stall(c) <= std::chrono::seconds(1); },
            [this](const Candidate& c) { return stall(c) <= std::chrono::seconds(2); },
            [this](const Candidate& c) { return stall(c) <= std::chrono::seconds(4); },
            [](const Candidate& c) { return c.holding->is_warm; },
            [this](const Candidate& c) { return !is_hot || c.provider->has_gpu; }};
  }
};

Candidates keep(const Candidates& from, const Question& question) {
  Candidates kept;
  for (const Candidate& c : from) {
    if (question(c)) kept.push_back(c);
  }
  return kept;
}

Candidates keep_if_any(const Candidates& from, const Question& question) {
  const Candidates kept = keep(from, question);
  return kept.empty() ? from : kept;
}

Candidate least(const Candidates& from, const std::function<std::uint64_t(const Candidate&)>& of) {
  Candidate best = from.front();
  for (const Candidate& c : from) {
    if (of(c) < of(best)) best = c;
  }
  return best;
}

void remove(Candidates& from, const Candidate& one) {
  std::erase_if(from, [&](const Candidate& c) { return c.provider == one.provider; });
}

bool has_same_bytes(const Candidate& a, const Candidate& b) {
  return a.holding->blob != BlobHash{} && a.holding->blob == b.holding->blob;
}

bool has_other_types(const Candidate& a, const Candidate& b) {
  return a.holding->types && b.holding->types && !(*a.holding->types == *b.holding->types);
}

Candidates eligible(const Candidates& all, const Oracle& oracle, bool leaving_too) {
  const planner::Options& options = oracle.options;
  Candidates usable = keep(all, [&](const Candidate& c) {
    if (options.excluded.contains(c.provider->address)) return false;
    if (oracle.is_self(c) && options.prefers_self) return true;
    if (c.provider->is_draining && !leaving_too) return false;
    if (oracle.is_self(c)) return true;
    if (!options.profile) return true;
    const unsigned bit = *options.profile == compute::Profile::exact ? 2U : 1U;
    return (c.provider->profiles & bit) != 0;
  });
  const bool warm_one_left = !keep(usable, [&](const Candidate& c) {
                                return c.holding->is_warm && !oracle.is_doubtful(c);
                              }).empty();
  const bool cold_allowed = options.allow_cold ? *options.allow_cold : !warm_one_left;
  return keep(usable, [&](const Candidate& c) {
    return cold_allowed || c.holding->is_warm || oracle.is_self(c);
  });
}

Candidates eligible(const Candidates& all, const Oracle& oracle) {
  const Candidates staying = eligible(all, oracle, false);
  const bool has_dependable =
      !keep(staying, [&](const Candidate& c) { return !oracle.is_doubtful(c); }).empty();
  return has_dependable ? staying : eligible(all, oracle, true);
}

Candidate choose_primary(Candidates from, const Oracle& oracle) {
  for (const Question& question : oracle.tier()) from = keep_if_any(from, question);
  const auto lot = [&](const Candidate& c) { return oracle.lot(c); };
  const Candidate first = least(from, lot);
  remove(from, first);
  if (from.empty()) return first;
  const Candidate second = least(from, lot);
  return oracle.load(second) < oracle.load(first) ? second : first;
}

Candidate choose_standby(Candidates from, const Candidate& primary, const Oracle& oracle) {
  from = keep_if_any(from, [&](const Candidate& c) { return !oracle.is_doubtful(c); });
  for (const int ms : {0, 500, 1000, 2000, 4000}) {
    from = keep_if_any(
        from, [&](const Candidate& c) { return oracle.stall(c) <= std::chrono::milliseconds(ms); });
  }
  const Candidates same =
      keep(from, [&](const Candidate& c) { return has_same_bytes(c, primary); });
  from = !same.empty()
             ? same
             : keep_if_any(from, [&](const Candidate& c) { return !has_other_types(c, primary); });
  for (const Question& question : oracle.tier()) from = keep_if_any(from, question);
  const std::uint64_t lightest =
      oracle.load(least(from, [&](const Candidate& c) { return oracle.load(c); }));
  from = keep(from, [&](const Candidate& c) { return oracle.load(c) == lightest; });
  return least(from, [&](const Candidate& c) { return oracle.lot(c); });
}

}  // namespace

std::vector<ProviderAddress> naive_holders(const Candidates& candidates, shards::View::Slot slot,
                                           std::uint32_t rows, const planner::Options& options) {
  Oracle oracle{.options = options, .draw = planner::draw(options.request, slot), .rows = rows};
  for (const Candidate& c : candidates)
    oracle.is_hot = oracle.is_hot || c.provider->committed_tps >= options.hot_threshold_tps;
  Candidates left = eligible(candidates, oracle);
  if (left.empty()) return {};
  const Candidate primary = choose_primary(left, oracle);
  std::vector<ProviderAddress> order{primary.provider->address};
  remove(left, primary);
  while (!left.empty() && order.size() <= planner::kStandbysMax) {
    const Candidate next = choose_standby(left, primary, oracle);
    order.push_back(next.provider->address);
    remove(left, next);
  }
  return order;
}

}  // namespace tenzro::testing
