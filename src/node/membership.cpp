// Node: joining, leaving, and what it says of itself.
#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/node/node.hpp"

#include "presence.hpp"

namespace tenzro::node {
namespace {

/// Own facts are put together at most so often: a load of thousands of experts changes them at
/// each.
constexpr Duration kFactsEvery = std::chrono::milliseconds(100);

gossip::Options gossip_options(const Options& options, Outbox& out) {
  gossip::Options gossip{.ttl = options.ttl, .fanout = options.fanout};
  gossip.membership.heartbeat = options.heartbeat;
  gossip.membership.allow = options.allow;
  gossip.membership.deny = options.deny;
  for (const std::string& text : options.bootstrap) {
    auto entry = gossip::parse_bootstrap(text);
    if (entry) {
      gossip.bootstrap.push_back(std::move(*entry));
    } else {
      out.emplace_back(Notice{entry.error().message()});
    }
  }
  return gossip;
}

/// A name as a record may carry it: characters that are whole and no controls, cut between two.
std::string to_record_name(std::string_view text) {
  std::string name;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t size = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    const std::string_view character = text.substr(at, size);
    if (!is_valid_utf8(character)) {
      ++at;
      continue;
    }
    at += character.size();
    const bool is_late_control =
        first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;  // U+0080 to U+009F
    if (first < 0x20 || first == 0x7f || is_late_control) continue;
    if (name.size() + character.size() > wire::kRecordTextBytesMax) break;
    name += character;
  }
  return name;
}

wire::TypeTriple to_triple(const work::ExpertFacts& facts) {
  wire::TypeTriple types{.up = static_cast<std::uint8_t>(facts.up_type),
                         .down = static_cast<std::uint8_t>(facts.down_type)};
  if (facts.gate_type) types.gate = static_cast<std::uint8_t>(*facts.gate_type);
  return types;
}

}  // namespace

void Node::join_mesh(Instant now, std::uint64_t wall_ms, const crypto::Signing& signing,
                     Outbox& out) {
  presence_ = std::make_unique<Presence>(gossip_options(options_, out), signing, prng_, call_ids_,
                                         view_, now, wall_ms);
  facts_due_ = now;
  settle(now, out);
}

void Node::set_wall(Instant now, std::uint64_t wall_ms) {
  if (presence_ != nullptr) presence_->set_wall(now, wall_ms);
}

void Node::leave(Instant now, Outbox& out) {
  if (presence_ != nullptr) presence_->leave(now, out);
  settle(now, out);
}

bool Node::has_left(Instant now) const {
  return presence_ == nullptr || presence_->gossip().has_left(now);
}

const gossip::Gossip* Node::gossip() const {
  return presence_ == nullptr ? nullptr : &presence_->gossip();
}

void Node::set_addresses(std::string rpc_address, std::string http_endpoint,
                         std::string quic_address, std::vector<std::string> quic_addresses) {
  about_.rpc_address = std::move(rpc_address);
  about_.http_endpoint = std::move(http_endpoint);
  if (!quic_address.empty()) about_.quic_address = std::move(quic_address);
  quic_addresses_ = std::move(quic_addresses);
  update_roles();
}

void Node::announce_facts(Instant now) {
  if (presence_ == nullptr) return;
  presence_->set_load(
      now, {.in_flight = static_cast<std::uint32_t>(requests_.size() + peer_requests_.size()),
            .queue_max = static_cast<std::uint32_t>(options_.requests_max),
            .committed_tps = meter_.rate(now),
            .is_draining = is_draining_});
  if (!facts_due_ || now < *facts_due_ || now < facts_made_ + kFactsEvery) return;
  facts_due_.reset();
  facts_made_ = now;
  const auto settles = tier_news_.settle(now, [this](const ExpertKey& key) {
    const auto held = holder_.expert(key);
    return held && held->in_memory;
  });
  // With what else a heartbeat brings.
  if (settles) facts_due_ = std::max(*settles, now + options_.heartbeat);
  std::vector<wire::Bytes> pages;
  std::set<ModelId> models;
  wire::ProviderRecord facts = own_facts(pages, models);
  presence_->set_own(now, std::move(facts), std::move(pages), models);
}

void Node::on_tier_changed(Instant now, const ExpertKey& key, bool is_in_memory) {
  tier_news_.on_tier_changed(now, key, is_in_memory);
  const Instant due = std::max(now, facts_made_ + options_.heartbeat);
  if (!facts_due_ || due < *facts_due_) facts_due_ = due;
}

std::optional<Instant> Node::next_mesh_deadline() const {
  if (presence_ == nullptr) return std::nullopt;
  std::optional<Instant> earliest = presence_->next_deadline();
  if (facts_due_) {
    const Instant due = std::max(*facts_due_, facts_made_ + kFactsEvery);
    if (!earliest || due < *earliest) earliest = due;
  }
  return earliest;
}

wire::ProviderRecord Node::own_facts(std::vector<wire::Bytes>& pages,
                                     std::set<ModelId>& models) const {
  wire::ProviderRecord facts;
  facts.name = to_record_name(about_.name);
  facts.software = about_.version;
  facts.addresses = quic_addresses_;
  facts.http_endpoint = about_.http_endpoint;
  for (const shards::Role role : view_.providers().at(about_.provider).roles)
    facts.roles |= 1U << static_cast<unsigned>(role);
  facts.price_per_input_token = options_.price_per_input_token;
  facts.minimum_price = options_.minimum_price;
  facts.has_gpu = about_.has_gpu;
  facts.profiles = view_.providers().at(about_.provider).profiles;
  const LayerKey* last = nullptr;
  const auto held = holder_.experts();
  for (const holder::Holder::ExpertView& view : held) {
    if (last == nullptr || *last != view.row->layer) pages.emplace_back();
    last = &view.row->layer;
    BlobHash blob{};
    if (view.row->source_uri) blob = view.row->hash;
    pages.back().insert(pages.back().end(), blob.begin(), blob.end());
    facts.models[view.key.model][view.key.layer][view.key.expert] = {
        tier_news_.is_told_warm(view.key, view.in_memory), to_triple(view.row->facts)};
    models.insert(view.key.model);
  }
  for (const work::HoldingRow* gate : holder_.gates()) models.insert(gate->layer.model);
  return facts;
}

}  // namespace tenzro::node
