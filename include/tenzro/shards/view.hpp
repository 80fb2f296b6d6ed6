#pragma once
/// \file
/// The shard view: who holds which expert, as declared, one entry a (provider, expert).
///
/// Rules
///  - A provider is known once its facts were set; a declaration of an unknown provider is ignored.
///  - Declaring again replaces; a removed provider takes its declarations with it, and whoever
///  removes it is told which they were.
///  - Answers come in one order, equal on every node: warm before cold, GPU before CPU, higher
///  rate, lower address.
/// Bounds: `providers_max`, `holdings_max`; beyond them new ones are refused. Cost: O(log n) a
/// change, O(replicas) a lookup, a removal what that provider holds. Thread: the owner's only.
/// Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/tensor/block.hpp"

namespace tenzro::shards {

inline constexpr std::uint8_t kEveryProfile = 0b11;

/// What a node declares itself to be; a provider may have several.
enum class Role : std::uint8_t {
  replica,
  router,
  expert_holder,
  prefill_decode,
  prefill,
  decode,
  pipeline_stage
};
/// As on the wire: "ExpertHolder".
[[nodiscard]] std::string_view name_of(Role role);
[[nodiscard]] std::optional<Role> role_from_name(std::string_view name);

/// Whether this node hears of the provider. One that is down is removed from the view.
enum class Health : std::uint8_t { alive, suspect };

struct Provider {
  ProviderAddress address{};
  /// As text, for answers; `endpoint_key` is the same key as bytes, zeros where there is none.
  std::optional<std::string> endpoint_id;
  EndpointId endpoint_key{};
  /// "host:port" of its QUIC endpoint, best first.
  std::vector<std::string> addresses;
  /// Speaks tenzro/exec/1; else only tenzro/moe.
  bool speaks_exec = true;
  std::optional<std::string> http_endpoint;
  std::set<Role> roles;
  bool has_gpu = false;
  /// Measured tokens a second, stamped on each of its holdings.
  std::uint32_t committed_tps = 0;
  /// Numeric profiles it runs: the bit of number compute::Profile.
  std::uint8_t profiles = kEveryProfile;
  Health health = Health::alive;
  /// It is leaving: it serves what it has and wants no more.
  bool is_draining = false;
  std::uint64_t price_per_input_token = 0;
  std::uint64_t minimum_price = 0;
  /// Bytes of experts it would take to repair the replication; absent: it takes none.
  std::optional<std::uint64_t> repair_free_bytes;
  /// Models whose experts it would take although it holds none of them; "*" is every model.
  std::set<ModelId> repair_models;
  /// What the largest expert it holds of a model takes.
  std::map<ModelId, std::uint64_t> expert_bytes;
};

/// How an expert's projections are stored.
struct WeightTypes {
  std::optional<tensor::WeightType> gate;  ///< absent for two-matrix experts
  tensor::WeightType up = tensor::WeightType::f32;
  tensor::WeightType down = tensor::WeightType::f32;
  friend bool operator==(const WeightTypes&, const WeightTypes&) = default;
};

struct Holding {
  bool is_warm = true;
  std::optional<std::string> blob_uri;
  std::optional<WeightTypes> types;  ///< absent: not declared
  BlobHash blob{};                   ///< zeros: not declared
};

/// One candidate for an expert.
struct Candidate {
  const Provider* provider = nullptr;
  const Holding* holding = nullptr;
};

struct Options {
  std::size_t providers_max = 10'000;
  std::size_t holdings_max = 4'000'000;
};

class View {
 public:
  explicit View(const Options& options) : options_(options) {}

  void set_provider(const Provider& provider);
  void set_rate(const ProviderAddress& address, std::uint32_t committed_tps);

  using Slot = std::pair<LayerIndex, ExpertIndex>;
  /// Experts by model.
  using Held = std::map<ModelId, std::set<Slot>>;
  /// What it had declared.
  Held remove_provider(const ProviderAddress& address);
  void declare(const ProviderAddress& address, const ExpertKey& key, Holding holding);
  void withdraw(const ProviderAddress& address, const ExpertKey& key);

  /// Candidates in the order of the rules above.
  [[nodiscard]] std::vector<Candidate> candidates(const ExpertKey& key) const;

  /// Whoever declares an expert of exactly these bytes, each once. Looks at no more than `scan_max`
  /// declarations: there is no index by hash.
  [[nodiscard]] std::vector<const Provider*> holders_of(const BlobHash& hash,
                                                        std::size_t scan_max) const;

  /// Every declared expert of a model with its candidates, in (layer, expert) order.
  [[nodiscard]] std::vector<std::pair<Slot, std::vector<Candidate>>> model(
      const ModelId& model) const;
  /// The next declared experts of a model after that one (from the first where there is none), at
  /// most `count`, with their candidates in no order that means anything.
  [[nodiscard]] std::vector<std::pair<Slot, std::vector<Candidate>>> slots_after(
      const ModelId& model, std::optional<Slot> after, std::size_t count) const;
  /// Every model with a declared expert, in order.
  [[nodiscard]] std::vector<ModelId> models() const;
  /// What that provider holds; null where it is nothing.
  [[nodiscard]] const Held* held(const ProviderAddress& address) const;
  [[nodiscard]] std::uint32_t count_role(Role role) const;
  /// What each provider holds, in key order.
  [[nodiscard]] std::map<ProviderAddress, std::vector<std::pair<ExpertKey, const Holding*>>>
  by_provider() const;
  /// What that provider declared of that expert; or null.
  [[nodiscard]] const Holding* holding(const ProviderAddress& address, const ExpertKey& key) const;

  [[nodiscard]] const std::map<ProviderAddress, Provider>& providers() const { return providers_; }

 private:
  using Holders = std::map<ProviderAddress, Holding>;

  [[nodiscard]] std::vector<Candidate> list(const Holders& holders) const;
  [[nodiscard]] std::vector<Candidate> rank(const Holders& holders) const;
  /// Adds whoever declares these bytes in one slot, each provider once. False: as many declarations
  /// were looked at as `scan_left` allowed.
  [[nodiscard]] bool add_holders(const Holders& holders, const BlobHash& hash,
                                 std::size_t& scan_left, std::vector<const Provider*>& found) const;
  void erase(const ProviderAddress& address, const ModelId& model, const Slot& slot);

  Options options_;
  std::map<ProviderAddress, Provider> providers_;
  std::map<ModelId, std::map<Slot, Holders>> models_;
  std::map<ProviderAddress, Held> held_;  ///< the same by provider; none that is empty
  std::size_t holdings_ = 0;
};

}  // namespace tenzro::shards
