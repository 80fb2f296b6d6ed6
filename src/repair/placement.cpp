#include "tenzro/repair/placement.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"

namespace tenzro::repair {

Contender make_contender(const ProviderAddress& address) {
  return {address, to_base58(address)};
}

std::string placement_key(const ExpertKey& key) {
  return key.model + "/" + std::to_string(key.layer) + "/" + std::to_string(key.expert);
}

Hash32 placement_score(std::string_view placement_key, std::string_view name) {
  constexpr std::string_view kTag = "tenzro/moe/placement";
  std::string text;
  text.reserve(kTag.size() + placement_key.size() + name.size());
  text.append(kTag).append(placement_key).append(name);
  return crypto::sha256(text);
}

std::vector<ProviderAddress> rank(const ExpertKey& key, const std::vector<Contender>& contenders) {
  const std::string text = placement_key(key);
  std::vector<std::pair<Hash32, ProviderAddress>> scored;
  scored.reserve(contenders.size());
  for (const Contender& contender : contenders)
    scored.emplace_back(placement_score(text, contender.name), contender.address);
  std::sort(scored.begin(), scored.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<ProviderAddress> ranked;
  ranked.reserve(scored.size());
  for (const auto& [score, address] : scored) ranked.push_back(address);
  return ranked;
}

}  // namespace tenzro::repair
