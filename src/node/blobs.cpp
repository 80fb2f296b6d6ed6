#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/node/node.hpp"
#include "tenzro/wire/uri.hpp"

namespace tenzro::node {
namespace {

/// Declarations looked through for a blob whose holder the call does not name: some milliseconds.
constexpr std::size_t kHoldingsScannedMax = 200'000;

}  // namespace

std::vector<std::string> Node::addresses_of(const EndpointId& endpoint) const {
  const auto provider = view_.providers().find(crypto::address_of(endpoint));
  if (provider == view_.providers().end()) return {};
  return provider->second.addresses;
}

/// The URI's hint first, then who declares the expert with these bytes, then who declares them
/// elsewhere; for a gate, which nobody declares, the routers.
std::vector<fetch::Source> Node::blob_sources(const BlobSearch& search) const {
  std::vector<fetch::Source> sources;
  const auto add = [&](const EndpointId& id, const std::vector<std::string>& addresses) {
    const bool is_known = std::any_of(sources.begin(), sources.end(),
                                      [&id](const fetch::Source& other) { return other.id == id; });
    if (id != EndpointId{} && id != about_.endpoint_id && !is_known)
      sources.push_back({id, addresses});
  };
  const auto add_provider = [&](const shards::Provider& provider) {
    add(provider.endpoint_key, provider.addresses);
  };
  if (search.hint) add(*search.hint, addresses_of(*search.hint));
  if (search.expert) {
    const std::string uri = wire::format_blob_uri(search.hash);
    for (const shards::Candidate& candidate : view_.candidates(*search.expert)) {
      const auto& declared = candidate.holding->blob_uri;
      if (candidate.holding->blob == search.hash || (declared && declared->starts_with(uri)))
        add_provider(*candidate.provider);
    }
  }
  for (const shards::Provider* provider : view_.holders_of(search.hash, kHoldingsScannedMax))
    add_provider(*provider);
  if (search.is_gate) {
    for (const auto& [address, provider] : view_.providers()) {
      if (provider.roles.contains(shards::Role::router)) add_provider(provider);
    }
  }
  return sources;
}

void Node::read_blob(RequestId request, const BlobHash& hash, std::uint64_t bytes_max,
                     Outbox& out) {
  const JobId id = ids_.next();
  owners_.emplace(id, request);
  out.emplace_back(Store{id, work::ReadBlob{hash, bytes_max}});
}

/// The blob that a request wants is not in the store.
void Node::start_fetch(Instant now, RequestId request, Outbox& out) {
  const Waiting& waiting = requests_.at(request);
  const auto* load = std::get_if<UriLoad>(&waiting);
  const BlobSearch& search = load != nullptr ? load->search : std::get<FetchWait>(waiting).search;
  const std::uint64_t bytes_max = load != nullptr ? 0 : options_.fetch_bytes_max;
  const Status started =
      fetches_.start(now, request, search.hash, blob_sources(search), bytes_max, fetch_out_);
  if (!started) refuse_fetch(request, started.error(), out);
}

void Node::refuse_fetch(RequestId request, const Error& error, Outbox& out) {
  reply(request, fail(ErrorCode::infrastructure, "", "blob fetch: " + error.message()), out);
}

void Node::take_fetch(fetch::Action& action, Outbox& out) {
  if (auto* store = std::get_if<work::Store>(&action)) {
    owners_.emplace(store->id, Core::fetch);
    out.emplace_back(std::move(*store));
  } else if (auto* call = std::get_if<work::SendCall>(&action)) {
    // A hint may name a node whose record had not come yet when the fetch began.
    if (call->target.addresses.empty()) call->target.addresses = addresses_of(*call->target.id);
    out.emplace_back(std::move(*call));
  } else if (const auto* cancelled = std::get_if<work::CancelCall>(&action)) {
    out.emplace_back(*cancelled);
  } else if (const auto* lied = std::get_if<fetch::SourceLied>(&action)) {
    out.emplace_back(Notice{"endpoint " + to_hex(lied->source) + " gave other bytes as blob " +
                            to_hex(lied->hash)});
  } else {
    on_fetched(std::get<fetch::Finished>(action), out);
  }
}

void Node::on_fetched(const fetch::Finished& finished, Outbox& out) {
  if (!finished.size_bytes) {
    for (const RequestId waiter : finished.waiters)
      refuse_fetch(waiter, finished.size_bytes.error(), out);
    return;
  }
  FetchedBlob& fetched = fetched_[finished.hash];
  ++fetched.leases;
  for (const RequestId waiter : finished.waiters) {
    const auto it = requests_.find(waiter);
    if (it == requests_.end()) continue;
    ++fetched.requests;
    fetched_for_.emplace(waiter, finished.hash);
    auto* load = std::get_if<UriLoad>(&it->second);
    BlobSearch& search = load != nullptr ? load->search : std::get<FetchWait>(it->second).search;
    search.was_fetched = true;
    if (load != nullptr) {
      find_load(waiter, out);
    } else {
      read_blob(waiter, finished.hash, 0, out);
    }
  }
  if (fetched.requests == 0) release_fetched(finished.hash, out);
}

/// A request is over that had a blob fetched: the last of them ends the leases.
void Node::let_go_of_fetched(RequestId request, Outbox& out) {
  const auto hash = fetched_for_.extract(request);
  if (hash && --fetched_.at(hash.mapped()).requests == 0) release_fetched(hash.mapped(), out);
}

void Node::release_fetched(const BlobHash& hash, Outbox& out) {
  const FetchedBlob fetched = fetched_.extract(hash).mapped();
  out.emplace_back(Store{ids_.next(), work::ReleaseBlob{hash, fetched.leases, fetched.is_kept}});
}

void Node::take_serving(fetch::ServingAction& action, Outbox& out) {
  if (auto* store = std::get_if<work::Store>(&action)) {
    owners_.emplace(store->id, Core::serving);
    out.emplace_back(std::move(*store));
  } else if (auto* answer = std::get_if<work::SendReply>(&action)) {
    out.emplace_back(std::move(*answer));
  } else {
    out.emplace_back(std::get<work::RefuseRequest>(action));
  }
}

}  // namespace tenzro::node
