#pragma once
/// \file
/// Placement: who should take a copy of an expert, by rendezvous hash.
///
/// Every node that knows the same candidates names the same ones, without a word between them. A
/// candidate's score is SHA-256 of "tenzro/moe/placement", "<model>/<layer>/<expert>" and its
/// address in base58, one after another; the higher score comes first, of equal ones the lower
/// address. These bytes are shared with other implementations: they may not change. Cost: one hash
/// a candidate. Pure. Thread: any.
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/ids.hpp"

namespace tenzro::repair {

/// A provider as the hash takes it: its text is made once and used for many experts.
struct Contender {
  ProviderAddress address{};
  std::string name;  ///< base58
};

[[nodiscard]] Contender make_contender(const ProviderAddress& address);

/// "<model>/<layer>/<expert>".
[[nodiscard]] std::string placement_key(const ExpertKey& key);
[[nodiscard]] Hash32 placement_score(std::string_view placement_key, std::string_view name);

/// All of them, the first in the order above being the first to take a copy.
[[nodiscard]] std::vector<ProviderAddress> rank(const ExpertKey& key,
                                                const std::vector<Contender>& contenders);

}  // namespace tenzro::repair
