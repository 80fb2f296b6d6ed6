#include "support/cache_trace.hpp"

#include <algorithm>
#include <list>
#include <numeric>
#include <set>
#include <unordered_map>

#include "tenzro/base/prng.hpp"
#include "tenzro/holder/retention.hpp"

namespace tenzro::testing {
namespace {

/// Draws i of n with a chance proportional to 1 / (i + 1).
class Zipf {
 public:
  explicit Zipf(std::uint32_t n) : sums_(n) {
    double sum = 0;
    for (std::uint32_t i = 0; i < n; ++i) sums_[i] = sum += 1.0 / (i + 1);
  }

  [[nodiscard]] std::uint32_t draw(Prng& prng) const {
    constexpr double kSteps = 9007199254740992.0;  // 2^53
    const double at = static_cast<double>(prng.next() >> 11U) / kSteps * sums_.back();
    return static_cast<std::uint32_t>(std::upper_bound(sums_.begin(), sums_.end() - 1, at) -
                                      sums_.begin());
  }

 private:
  std::vector<double> sums_;
};

std::vector<std::uint32_t> shuffled(std::uint32_t n, Prng& prng) {
  std::vector<std::uint32_t> names(n);
  std::iota(names.begin(), names.end(), 0U);
  for (std::uint32_t i = n; i > 1; --i) std::swap(names[i - 1], names[prng.below(i)]);
  return names;
}

/// Shares of `trace` from `warm` on for which `is_hit`, asked in order, says yes.
template <typename IsHit>
double share(const CacheTrace& trace, std::size_t warm, IsHit is_hit) {
  std::size_t hits = 0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (is_hit(trace[i]) && i >= warm) ++hits;
  }
  return static_cast<double>(hits) / static_cast<double>(trace.size() - warm);
}

}  // namespace

CacheTrace zipf_trace(std::uint32_t experts, std::size_t uses, std::uint64_t seed) {
  Prng prng(seed);
  const Zipf zipf(experts);
  const std::vector<std::uint32_t> names = shuffled(experts, prng);
  CacheTrace trace(uses);
  for (std::uint32_t& use : trace) use = names[zipf.draw(prng)];
  return trace;
}

CacheTrace uniform_trace(std::uint32_t experts, std::size_t uses, std::uint64_t seed) {
  Prng prng(seed);
  CacheTrace trace(uses);
  for (std::uint32_t& use : trace) use = static_cast<std::uint32_t>(prng.below(experts));
  return trace;
}

CacheTrace loop_trace(std::uint32_t experts, std::size_t uses) {
  CacheTrace trace(uses);
  for (std::size_t i = 0; i < uses; ++i) trace[i] = static_cast<std::uint32_t>(i % experts);
  return trace;
}

CacheTrace scan_trace(std::uint32_t experts, std::size_t uses, std::uint64_t seed) {
  constexpr std::size_t kScanEvery = 3;
  Prng prng(seed);
  const std::uint32_t hot = experts / 2;
  const Zipf zipf(hot);
  std::uint32_t next = hot;
  CacheTrace trace(uses);
  for (std::size_t i = 0; i < uses; ++i) {
    if (i % kScanEvery != 0) {
      trace[i] = zipf.draw(prng);
      continue;
    }
    trace[i] = next++;
    if (next == experts) next = hot;
  }
  return trace;
}

CacheTrace replay_trace(const ReplayShape& shape, std::size_t uses, std::uint64_t seed) {
  Prng prng(seed);
  const Zipf zipf(shape.per_layer);
  std::vector<std::vector<std::uint32_t>> favourites(shape.layers);
  CacheTrace trace;
  trace.reserve(uses + shape.layers * shape.top_k);
  for (std::size_t token = 0; trace.size() < uses; ++token) {
    for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
      std::vector<std::uint32_t>& names = favourites[layer];
      if (names.empty()) names = shuffled(shape.per_layer, prng);
      if (token % shape.subject_tokens == 0) {  // a quarter of the layer's favourites change
        for (std::uint32_t i = 0; i < shape.per_layer / 4; ++i)
          std::swap(names[prng.below(shape.per_layer)], names[prng.below(shape.per_layer)]);
      }
      std::set<std::uint32_t> chosen;
      while (chosen.size() < shape.top_k) chosen.insert(names[zipf.draw(prng)]);
      for (const std::uint32_t expert : chosen) trace.push_back(layer * shape.per_layer + expert);
    }
  }
  trace.resize(uses);
  return trace;
}

double retention_hits(const CacheTrace& trace, std::size_t capacity, std::size_t warm) {
  holder::Retention retention(capacity);
  std::vector<bool> is_resident(1 + *std::max_element(trace.begin(), trace.end()));
  std::size_t residents = 0;
  return share(trace, warm, [&](std::uint32_t expert) {
    const holder::ItemId id{expert};
    retention.on_use(id, 1);
    if (is_resident[expert]) return true;
    if (residents == capacity) {
      const auto victim = retention.victim([](holder::ItemId) { return true; });
      retention.on_leave(*victim);
      is_resident[static_cast<std::size_t>(*victim)] = false;
      --residents;
    }
    retention.on_enter(id);
    is_resident[expert] = true;
    ++residents;
    return false;
  });
}

double naive_lru_hits(const CacheTrace& trace, std::size_t capacity, std::size_t warm) {
  std::list<std::uint32_t> order;  // most recently used first
  std::unordered_map<std::uint32_t, std::list<std::uint32_t>::iterator> where;
  return share(trace, warm, [&](std::uint32_t expert) {
    const auto known = where.find(expert);
    if (known != where.end()) {
      order.splice(order.begin(), order, known->second);
      return true;
    }
    if (order.size() == capacity) {
      where.erase(order.back());
      order.pop_back();
    }
    order.push_front(expert);
    where[expert] = order.begin();
    return false;
  });
}

double oracle_static_hits(const CacheTrace& trace, std::size_t capacity, std::size_t warm) {
  std::vector<std::size_t> uses(1 + *std::max_element(trace.begin(), trace.end()));
  for (const std::uint32_t expert : trace) ++uses[expert];
  std::vector<std::uint32_t> experts(uses.size());
  std::iota(experts.begin(), experts.end(), 0U);
  std::stable_sort(experts.begin(), experts.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return uses[a] > uses[b]; });
  std::vector<bool> is_kept(uses.size());
  for (std::size_t i = 0; i < std::min(capacity, experts.size()); ++i) is_kept[experts[i]] = true;
  return share(trace, warm, [&](std::uint32_t expert) { return is_kept[expert]; });
}

}  // namespace tenzro::testing
