#pragma once
/// \file
/// The node's place in the mesh: gossip on one side, the shard view on the other.
///
/// What membership learns goes into the view: a provider with its first record, its holdings as
/// they change, blob hashes once the pages that name them came. Pages are fetched of models that
/// this node holds or gates, and of those that it was asked about while some provider declared
/// them. Rules
///  - The node's own row of the view is the node's, never what gossip says of it.
///  - A holding keeps its blob while only its residency changes.
/// Bounds: `kModelsMax` models asked about; later ones are not fetched. Own ones come on top.
/// Thread: the owner's only.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/gossip/gossip.hpp"
#include "tenzro/node/action.hpp"
#include "tenzro/shards/view.hpp"

namespace tenzro::node {

class Presence {
 public:
  static constexpr std::size_t kModelsMax = 256;

  Presence(gossip::Options options, const crypto::Signing& signing, Prng& prng, work::CallIds& ids,
           shards::View& view, Instant now, std::uint64_t wall_ms)
      : view_(view), gossip_(std::move(options), signing, prng, ids, now, wall_ms) {}

  /// What this node holds, with the pages of its blobs in (model, layer) order.
  void set_own(Instant now, wire::ProviderRecord facts, std::vector<wire::Bytes> pages,
               const std::set<ModelId>& models);

  void set_load(Instant now, const wire::Load& load) { gossip_.set_load(now, load); }

  void set_wall(Instant now, std::uint64_t wall_ms) { gossip_.set_wall(now, wall_ms); }

  /// Somebody asked for that model: its blob hashes are wanted where it is known.
  void want_model(Instant now, const ModelId& model);

  void on_request(Instant now, const work::PeerRequest& request, Outbox& out);
  bool on_reply(Instant now, PeerCallId call, const work::CallResult& result, Outbox& out);
  void on_tick(Instant now, Outbox& out);
  void leave(Instant now, Outbox& out);

  /// A provider that left the view, with what it had declared.
  struct Departed {
    ProviderAddress address{};
    shards::View::Held held;
  };

  /// Those since this was asked last.
  [[nodiscard]] std::vector<Departed> take_departed() { return std::exchange(departed_, {}); }

  /// Whether some provider began to drain since this was asked last.
  [[nodiscard]] std::set<ProviderAddress> take_leaving() { return std::exchange(leaving_, {}); }

  [[nodiscard]] std::optional<Instant> next_deadline() const { return gossip_.next_deadline(); }

  [[nodiscard]] const gossip::Gossip& gossip() const { return gossip_; }

 private:
  [[nodiscard]] bool is_of_interest(const ModelId& model) const;
  void wish_model(Instant now, const ModelId& model);
  void take(Instant now, gossip::Outbox& actions, Outbox& out);
  void on_record(Instant now, const membership::RecordChanged& change);
  void update_provider(const ProviderAddress& address);
  void wish(Instant now, const ProviderAddress& address, const wire::ProviderRecord& record);
  void apply_pages(const ProviderAddress& address, const wire::ProviderRecord& record);
  void apply_page(const ProviderAddress& address, const LayerKey& layer,
                  const wire::HeldLayer& experts, const wire::Bytes& page);
  [[nodiscard]] std::optional<wire::ProviderRecord> record_of(const ProviderAddress& address) const;

  shards::View& view_;
  gossip::Gossip gossip_;
  std::set<ModelId> own_models_;
  std::set<ModelId> models_;  ///< asked about
  std::vector<Departed> departed_;
  std::set<ProviderAddress> leaving_;
};

}  // namespace tenzro::node
