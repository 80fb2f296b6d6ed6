#include "presence.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/uri.hpp"

namespace tenzro::node {
namespace {

constexpr shards::Role kRoles[] = {shards::Role::replica,       shards::Role::router,
                                   shards::Role::expert_holder, shards::Role::prefill_decode,
                                   shards::Role::prefill,       shards::Role::decode,
                                   shards::Role::pipeline_stage};

shards::Provider to_provider(const ProviderAddress& address, const membership::Peer& peer) {
  const wire::ProviderRecord& facts = *peer.facts;
  shards::Provider provider{.address = address};
  provider.endpoint_id = to_hex(peer.key);
  if (!facts.http_endpoint.empty()) provider.http_endpoint = facts.http_endpoint;
  for (const shards::Role role : kRoles) {
    if ((facts.roles >> static_cast<unsigned>(role) & 1U) != 0) provider.roles.insert(role);
  }
  provider.has_gpu = facts.has_gpu;
  provider.committed_tps = peer.beat.load.committed_tps;
  provider.endpoint_key = peer.key;
  provider.addresses = facts.addresses;
  provider.profiles = static_cast<std::uint8_t>(facts.profiles & shards::kEveryProfile);
  provider.health =
      peer.health == membership::Health::alive ? shards::Health::alive : shards::Health::suspect;
  provider.is_draining = peer.beat.load.is_draining;
  provider.price_per_input_token = facts.price_per_input_token;
  provider.minimum_price = facts.minimum_price;
  provider.repair_free_bytes = facts.repair_free_bytes;
  provider.repair_models = facts.repair_models;
  provider.expert_bytes = facts.expert_bytes;
  return provider;
}

bool is_known(std::uint8_t type) {
  using tensor::WeightType;
  for (const WeightType known : {WeightType::f32, WeightType::f16, WeightType::q8_0,
                                 WeightType::q4_k, WeightType::q6_k, WeightType::bf16}) {
    if (static_cast<std::uint8_t>(known) == type) return true;
  }
  return false;
}

/// Nothing where a type is none that this node knows.
std::optional<shards::WeightTypes> to_types(const wire::TypeTriple& types) {
  if (!is_known(types.up) || !is_known(types.down)) return std::nullopt;
  shards::WeightTypes known{.up = static_cast<tensor::WeightType>(types.up),
                            .down = static_cast<tensor::WeightType>(types.down)};
  constexpr std::uint8_t kAbsent = 255;
  if (types.gate != kAbsent && !is_known(types.gate)) return std::nullopt;
  if (types.gate != kAbsent) known.gate = static_cast<tensor::WeightType>(types.gate);
  return known;
}

const wire::HeldExpert* find(const wire::ProviderRecord& record, const ExpertKey& key) {
  const auto model = record.models.find(key.model);
  if (model == record.models.end()) return nullptr;
  const auto layer = model->second.find(key.layer);
  if (layer == model->second.end()) return nullptr;
  const auto expert = layer->second.find(key.expert);
  return expert == layer->second.end() ? nullptr : &expert->second;
}

template <typename Visit>
void for_each_held(const wire::ProviderRecord& record, Visit visit) {
  for (const auto& [model, layers] : record.models) {
    for (const auto& [layer, experts] : layers) {
      for (const auto& [expert, held] : experts) visit(ExpertKey{model, layer, expert}, held);
    }
  }
}

std::optional<wire::ProviderRecord> decode(const membership::SharedBytes& sealed) {
  if (sealed == nullptr) return std::nullopt;
  const auto parts = wire::split_sealed(*sealed);
  if (!parts) return std::nullopt;
  auto record = wire::decode_record(parts->body);
  if (!record) return std::nullopt;
  return std::move(*record);
}

}  // namespace

void Presence::set_own(Instant now, wire::ProviderRecord facts, std::vector<wire::Bytes> pages,
                       const std::set<ModelId>& models) {
  if (!pages.empty()) {
    facts.manifest_root = gossip_.set_own_pages(std::move(pages));
  } else {
    gossip_.set_own_pages({});
  }
  gossip_.set_facts(now, std::move(facts));
  std::vector<ModelId> added;
  for (const ModelId& model : models) {
    if (!is_of_interest(model)) added.push_back(model);
  }
  own_models_ = models;
  for (const ModelId& model : added) wish_model(now, model);
}

bool Presence::is_of_interest(const ModelId& model) const {
  return own_models_.contains(model) || models_.contains(model);
}

void Presence::want_model(Instant now, const ModelId& model) {
  if (is_of_interest(model) || models_.size() >= kModelsMax) return;
  // Names that nobody declares would fill the table for good.
  if (view_.model(model).empty()) return;
  models_.insert(model);
  wish_model(now, model);
}

void Presence::wish_model(Instant now, const ModelId& model) {
  for (const auto& [address, peer] : gossip_.membership().peers()) {
    const auto record = record_of(address);
    if (record && record->models.contains(model)) wish(now, address, *record);
  }
}

std::optional<wire::ProviderRecord> Presence::record_of(const ProviderAddress& address) const {
  const membership::Peer* peer = gossip_.membership().find(address);
  return peer == nullptr ? std::nullopt : decode(peer->sealed_record);
}

void Presence::on_request(Instant now, const work::PeerRequest& request, Outbox& out) {
  gossip::Outbox actions;
  gossip_.on_request(now, request, actions);
  take(now, actions, out);
}

bool Presence::on_reply(Instant now, PeerCallId call, const work::CallResult& result, Outbox& out) {
  gossip::Outbox actions;
  if (!gossip_.on_reply(now, call, result, actions)) return false;
  take(now, actions, out);
  return true;
}

void Presence::on_tick(Instant now, Outbox& out) {
  gossip::Outbox actions;
  gossip_.on_tick(now, actions);
  take(now, actions, out);
}

void Presence::leave(Instant now, Outbox& out) {
  gossip::Outbox actions;
  gossip_.leave(now, actions);
  take(now, actions, out);
}

void Presence::take(Instant now, gossip::Outbox& actions, Outbox& out) {
  for (gossip::Action& action : actions) {
    if (const auto* record = std::get_if<membership::RecordChanged>(&action)) {
      on_record(now, *record);
    } else if (const auto* load = std::get_if<membership::LoadChanged>(&action)) {
      update_provider(load->address);
    } else if (const auto* health = std::get_if<membership::HealthChanged>(&action)) {
      update_provider(health->address);
    } else if (const auto* gone = std::get_if<membership::PeerGone>(&action)) {
      departed_.push_back({gone->address, view_.remove_provider(gone->address)});
    } else if (const auto* pages = std::get_if<gossip::PagesArrived>(&action)) {
      if (const auto known = record_of(pages->address)) apply_pages(pages->address, *known);
    } else if (auto* notice = std::get_if<membership::Notice>(&action)) {
      out.emplace_back(Notice{std::move(notice->text)});
    } else if (auto* call = std::get_if<gossip::SendCall>(&action)) {
      out.emplace_back(std::move(*call));
    } else if (auto* reply = std::get_if<gossip::SendReply>(&action)) {
      out.emplace_back(std::move(*reply));
    } else if (const auto* cancel = std::get_if<gossip::CancelCall>(&action)) {
      out.emplace_back(*cancel);
    } else {
      out.emplace_back(std::get<gossip::RefuseRequest>(action));
    }
  }
}

void Presence::update_provider(const ProviderAddress& address) {
  const membership::Peer* peer = gossip_.membership().find(address);
  if (peer == nullptr || peer->facts == nullptr) return;
  const auto known = view_.providers().find(address);
  const bool was_draining = known != view_.providers().end() && known->second.is_draining;
  shards::Provider provider = to_provider(address, *peer);
  if (provider.is_draining && !was_draining) leaving_.insert(address);
  view_.set_provider(provider);
}

void Presence::on_record(Instant now, const membership::RecordChanged& change) {
  update_provider(change.address);
  const auto before = decode(change.previous);
  if (before) {
    for_each_held(*before, [&](const ExpertKey& key, const wire::HeldExpert& /*held*/) {
      if (find(*change.record, key) == nullptr) view_.withdraw(change.address, key);
    });
  }
  for_each_held(*change.record, [&](const ExpertKey& key, const wire::HeldExpert& held) {
    const wire::HeldExpert* old = before ? find(*before, key) : nullptr;
    if (old != nullptr && *old == held) return;
    shards::Holding holding{.is_warm = held.is_warm, .types = to_types(held.types)};
    if (const shards::Holding* known = view_.holding(change.address, key)) {
      holding.blob_uri = known->blob_uri;
      holding.blob = known->blob;
    }
    view_.declare(change.address, key, std::move(holding));
  });
  wish(now, change.address, *change.record);
  apply_pages(change.address, *change.record);
}

void Presence::wish(Instant now, const ProviderAddress& address,
                    const wire::ProviderRecord& record) {
  gossip::Manifests::Wish wish;
  if (record.manifest_root) wish.root = *record.manifest_root;
  for (const auto& [model, layers] : record.models) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (record.manifest_root && is_of_interest(model)) wish.places.insert(wish.pages + i);
    }
    wish.pages += layers.size();
  }
  gossip_.want_pages(now, address, wish);
}

void Presence::apply_pages(const ProviderAddress& address, const wire::ProviderRecord& record) {
  std::size_t place = 0;
  for (const auto& [model, layers] : record.models) {
    for (const auto& [layer, experts] : layers) {
      const wire::Bytes* page = gossip_.manifests().page(address, place++);
      if (page == nullptr || page->size() != experts.size() * sizeof(BlobHash)) continue;
      apply_page(address, {model, layer}, experts, *page);
    }
  }
}

/// A page has one hash for each expert of the layer, in their order.
void Presence::apply_page(const ProviderAddress& address, const LayerKey& layer,
                          const wire::HeldLayer& experts, const wire::Bytes& page) {
  auto hash = page.begin();
  for (const auto& [expert, held] : experts) {
    BlobHash blob;
    std::copy_n(hash, blob.size(), blob.begin());
    hash += static_cast<std::ptrdiff_t>(blob.size());
    const ExpertKey key{layer.model, layer.layer, expert};
    const shards::Holding* known = view_.holding(address, key);
    if (known == nullptr || known->blob == blob) continue;
    shards::Holding holding = *known;
    holding.blob = blob;
    holding.blob_uri.reset();
    if (blob != BlobHash{}) holding.blob_uri = wire::format_blob_uri(blob);
    view_.declare(address, key, std::move(holding));
  }
}

}  // namespace tenzro::node
