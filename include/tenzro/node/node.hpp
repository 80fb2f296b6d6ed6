#pragma once
/// \file
/// The node: a state machine that turns calls and results into replies and work.
///
/// Events in (a call, a compute result, a stored result, a tick), actions out (reply, run, store,
/// notice). It composes the cores: `holder` (residency), `shards` and `planner` (who holds what),
/// `forward` (requests in flight, here and at peers), `ledger` (what is thought of peers),
/// `prepare` (jobs), `fetch` (blobs to and from peers), `gossip` (who is in the mesh), `repair`
/// (copies that are missing). Rules
///  - Every call gets exactly one Reply, unless it was cancelled first; then none.
///  - Results for work that nobody wants any more are ignored.
///  - At most `requests_max` calls are in progress; beyond them the answer is `busy`. Why: each
///  pins memory.
///  - While draining, calls that start new work are refused; those in flight finish. Peers are told
///  and go elsewhere where they can; what only this node holds it still executes for them, until
///  others hold it or the time for that is up. Once it leaves it refuses everybody.
/// Thread: the owner's only. Pure: time comes in, nothing is read from the outside.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/catalog/catalog.hpp"
#include "tenzro/crypto/signing.hpp"
#include "tenzro/fetch/fetches.hpp"
#include "tenzro/fetch/serving.hpp"
#include "tenzro/forward/execution.hpp"
#include "tenzro/forward/flight.hpp"
#include "tenzro/forward/mesh.hpp"
#include "tenzro/forward/serving.hpp"
#include "tenzro/gossip/gossip.hpp"
#include "tenzro/holder/holder.hpp"
#include "tenzro/ledger/standing.hpp"
#include "tenzro/node/action.hpp"
#include "tenzro/node/blob_search.hpp"
#include "tenzro/node/tier_news.hpp"
#include "tenzro/prepare/jobs.hpp"
#include "tenzro/repair/repair.hpp"
#include "tenzro/rpc/call.hpp"
#include "tenzro/shards/view.hpp"
#include "tenzro/work/peer.hpp"

namespace tenzro::node {

/// What a node is told about itself at start; all of it is shown by some method.
struct About {
  std::string version;
  std::string name;
  EndpointId endpoint_id{};
  ProviderAddress provider{};
  /// "http://host:port" as announced; empty where there is none.
  std::string http_endpoint;
  std::string rpc_address;
  std::string quic_address;
  std::string compute_backend;
  bool has_gpu = false;
  std::uint32_t threads = 1;
  std::vector<std::string> alpns;
};

/// Which peers may have experts executed here.
enum class ExecuteRule : std::uint8_t {
  mesh,       ///< those whose valid provider record this node holds
  open,       ///< any; the connection proves who it is
  allowlist,  ///< those in Options::execute_allow
  token,      ///< none: peers show no tokens
};

struct RepairOptions {
  Duration interval = std::chrono::seconds(120);
  /// For how long a provider that went counts as one that comes back; 0: five intervals.
  Duration grace{0};
  /// A pass; 0: this node fetches nothing by itself, unless `bytes_per_s` is set.
  std::uint32_t max_admissions = 2;
  /// 0: counted in experts.
  std::uint64_t bytes_per_s = 0;
  /// Whose experts this node takes although it holds none of them; "*": every model.
  std::set<ModelId> models;
  /// Bytes of experts, on both tiers, beyond which it takes no more by itself; 0: four times the
  /// memory budget.
  std::uint64_t held_bytes_max = 0;
  /// Whether copies beyond the maximum go: only where every provider is one that the operator
  /// named.
  bool drops_surplus = true;
};

struct Options {
  holder::Options holder;
  prepare::Options prepare;
  rpc::Policy policy;
  Duration forward_deadline = std::chrono::seconds(30);
  /// Attempts, hedges and replans; its hot_threshold_tps is taken from `policy`.
  forward::Limits forward;
  ledger::Options ledger;
  compute::Profile profile = compute::Profile::exact;
  rpc::CarrierChoice carrier = rpc::CarrierChoice::automatic;
  double min_kept_mass = 0.5;
  /// Calls and peers' requests together.
  std::size_t requests_max = 256;
  /// Messages, rows and outputs of peers' requests in service. Beyond it they are told `busy`.
  std::uint64_t peer_bytes_max = 1ULL << 30U;
  ExecuteRule execute = ExecuteRule::mesh;
  std::set<EndpointId> execute_allow;
  /// Profiles that peers may ask for.
  std::vector<compute::Profile> profiles{compute::Profile::exact, compute::Profile::fast};
  /// Expert outputs of one forward: tokens x slots x width x 4 bytes. More is refused, not split.
  std::uint64_t forward_bytes_max = 2ULL << 30U;
  /// A blob that tenzro_iroh_fetchBlob gives in one reply; larger ones go over GET /blob.
  std::uint64_t fetch_bytes_max = 64ULL << 20U;
  fetch::Options fetch;
  fetch::ServingOptions serving;
  /// Roles to declare beside those that follow from what is loaded.
  std::set<shards::Role> roles;
  std::uint64_t price_per_input_token = 10;
  std::uint64_t minimum_price = 100;
  /// "<endpoint id>@host:port" or "host:port".
  std::vector<std::string> bootstrap;
  Duration heartbeat = std::chrono::seconds(10);
  /// Silence after which others take this node for gone.
  Duration ttl = std::chrono::seconds(30);
  std::size_t fanout = 4;
  /// Endpoint ids; an empty allow list allows everyone who is not denied.
  std::set<EndpointId> allow;
  std::set<EndpointId> deny;
  RepairOptions repair;
  /// How long a drain waits for others to take what only this node holds.
  Duration drain_max = std::chrono::seconds(600);
};

/// Running totals since start, for metrics.
struct Totals {
  std::uint64_t calls = 0;
  std::uint64_t calls_refused_busy = 0;
  std::uint64_t forwards = 0;
  std::uint64_t forwards_failed = 0;
  std::uint64_t executions = 0;
  std::uint64_t executions_failed = 0;
  std::uint64_t token_expert_pairs = 0;
  std::uint64_t replans = 0;
  // Of forwards, successful or not.
  std::uint64_t batches_local = 0;
  std::uint64_t batches_iroh = 0;
  std::uint64_t batches_http = 0;
  std::uint64_t hedges = 0;
  std::uint64_t failovers = 0;
  std::uint64_t peer_failures = 0;
  std::uint64_t peer_busy = 0;
  std::uint64_t peer_requests_exec = 0;
  std::uint64_t peer_requests_moe = 0;
  std::uint64_t peer_requests_served = 0;
  std::uint64_t peer_requests_failed = 0;
  std::uint64_t peer_requests_cancelled = 0;
  std::uint64_t peer_refused_busy = 0;
  std::uint64_t peer_refused_forbidden = 0;
  std::uint64_t peer_refused_malformed = 0;
};

class Presence;
struct Repairs;

class Node {
 public:
  Node(const Options& options, About about, const catalog::Catalog& catalog, Prng& prng);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Once, before any call: what the store remembers.
  void on_index(Instant now, const std::vector<work::HoldingRow>& rows, Outbox& out);
  /// After on_index: the prepare jobs of earlier lives.
  void on_job_log(Instant now, const std::vector<work::LoggedJob>& jobs, Outbox& out);
  void on_call(Instant now, RequestId request, rpc::Call call, Outbox& out);
  /// The client is gone: no Reply will follow, work in progress is let go.
  void on_cancel(Instant now, RequestId request, Outbox& out);
  void on_job_done(Instant now, JobId id, const work::JobResult& result, Outbox& out);
  void on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out);
  void on_peer_request(Instant now, work::PeerRequest request, Outbox& out);
  /// The peer no longer waits for that reply.
  void on_peer_request_cancelled(Instant now, PeerRequestId request, Outbox& out);
  void on_peer_reply(Instant now, PeerCallId call, const work::CallResult& result, Outbox& out);
  void on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded, Outbox& out);
  void on_tick(Instant now, Outbox& out);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  /// Addresses become known when sockets are bound. `quic_addresses` are announced: "host:port",
  /// best first.
  void set_addresses(std::string rpc_address, std::string http_endpoint,
                     std::string quic_address = "", std::vector<std::string> quic_addresses = {});

  /// Once, after the addresses are known: gossip begins. `wall_ms` is the wall clock at `now`;
  /// `signing` outlives the node. Without it the node is alone.
  void join_mesh(Instant now, std::uint64_t wall_ms, const crypto::Signing& signing, Outbox& out);
  /// The wall clock at `now`, read again from time to time: it may have been set.
  void set_wall(Instant now, std::uint64_t wall_ms);
  /// Says goodbye. The node goes on with what it has, and is gone for the others.
  void leave(Instant now, Outbox& out);
  /// After leave: whoever was told has heard it, or the time for it is up.
  [[nodiscard]] bool has_left(Instant now) const;
  /// Null before join_mesh.
  [[nodiscard]] const gossip::Gossip* gossip() const;

  [[nodiscard]] const shards::View& view() const { return view_; }

  /// Takes no new work from anybody, peers included.
  void drain();
  /// Announces that this node goes, lets others take what only it holds, for `limit` at most, and
  /// then is drained. Asked again it only sets the limit anew.
  void begin_drain(Instant now, Duration limit);

  /// After begin_drain: all is done, or the time is up. It is then to leave.
  [[nodiscard]] bool is_drained() const { return drain_ && drain_->is_over; }

  /// How much memory experts may take from now on.
  void set_memory_budget(Instant now, std::uint64_t bytes, Outbox& out);

  [[nodiscard]] bool is_draining() const { return is_draining_; }

  /// What the disk can still take; unknown before, and then this node repairs nothing.
  void set_disk_free(std::uint64_t bytes);

  [[nodiscard]] const repair::Repair& repair() const;

  /// True once the gates the store remembers are loaded.
  [[nodiscard]] bool is_ready() const { return holder_.is_ready(); }

  [[nodiscard]] std::size_t requests_in_progress() const { return requests_.size(); }

  [[nodiscard]] std::size_t peer_requests_in_progress() const { return peer_requests_.size(); }

  /// Whether the rule lets that endpoint have experts executed here.
  [[nodiscard]] bool may_execute(const EndpointId& endpoint) const;
  /// Blobs go to members, and under `open` to anyone who is not denied.
  [[nodiscard]] bool may_fetch(const EndpointId& endpoint) const;
  /// True where this node holds a valid provider record of that endpoint.
  [[nodiscard]] bool is_member(const EndpointId& endpoint) const;

  [[nodiscard]] std::size_t requests_max() const { return options_.requests_max; }

  [[nodiscard]] const Totals& totals() const { return totals_; }

  [[nodiscard]] const holder::Holder& holder() const { return holder_; }

  [[nodiscard]] const ledger::Standings& standings() const { return standings_; }

  [[nodiscard]] const fetch::Totals& fetch_totals() const { return fetches_.totals(); }

  [[nodiscard]] const fetch::ServingTotals& serving_totals() const { return serving_.totals(); }

  [[nodiscard]] std::uint32_t measured_tps(Instant now) const { return meter_.rate(now); }

  [[nodiscard]] const holder::ServiceMeter& service_meter() const { return service_; }

 private:
  /// A load by URI: its blob is being looked for in the store, or fetched; a gate's is read here.
  struct UriLoad {
    LayerKey layer;
    std::optional<ExpertIndex> expert;
    std::string uri;
    BlobSearch search;
  };

  struct RouteWait {
    LayerKey key;
    std::uint32_t top_k = 0;
  };

  struct FetchWait {
    BlobSearch search;
  };

  struct PublishWait {};

  /// Waits inside a core (a load, an unload, a prepare). A load by URI is begun again where the
  /// store's blob proves lost.
  struct CoreWait {
    std::optional<UriLoad> load;
  };

  struct ForwardWait {
    std::unique_ptr<forward::Flight> flight;
    Instant started;
    std::uint32_t top_k = 0;
  };

  struct ExecuteWait {
    std::unique_ptr<forward::Execution> execution;
  };

  using Waiting =
      std::variant<CoreWait, UriLoad, RouteWait, FetchWait, PublishWait, ForwardWait, ExecuteWait>;

  /// Whose a job is: a core's, or a request's.
  enum class Core : std::uint8_t { holder, prepare, fetch, serving };
  using Owner = std::variant<Core, RequestId, PeerRequestId>;

  /// A peer's frame of tenzro/moe: being read (no exchange yet), worked on, or written.
  struct FrameWait {
    JobId job{};  ///< that reads or writes
    std::shared_ptr<rpc::Exchange> exchange;
    std::unique_ptr<forward::Execution> execution;
    bool has_failed = false;
  };

  struct PeerWait {
    EndpointId from{};
    Instant arrived;
    std::uint64_t bytes = 0;  ///< counted in peer_bytes_
    std::variant<std::unique_ptr<forward::Serving>, FrameWait> work;
  };

  /// Of the experts this node holds itself.
  class HeldFacts final : public forward::Facts {
   public:
    explicit HeldFacts(const holder::Holder& holder) : holder_(holder) {}

    [[nodiscard]] const work::ExpertFacts* find(const ExpertKey& key) const override {
      return holder_.facts(key);
    }

   private:
    const holder::Holder& holder_;
  };

  // calls_query.cpp
  [[nodiscard]] Result<rpc::Answer> shard_map(Instant now, const rpc::ShardMapCall& call);
  [[nodiscard]] Result<rpc::Answer> plan_dispatch(Instant now, const rpc::PlanDispatchCall& call);
  [[nodiscard]] Result<rpc::Answer> catalog_shape(const rpc::CatalogShapeCall& call) const;
  [[nodiscard]] Result<rpc::Answer> model_metadata(const rpc::ModelMetadataCall& call) const;
  [[nodiscard]] Result<rpc::Answer> expert_status(Instant now) const;
  [[nodiscard]] Result<rpc::Answer> node_status(Instant now) const;
  [[nodiscard]] Result<rpc::Answer> list_providers(Instant now);
  [[nodiscard]] rpc::ExpertRow expert_row(const holder::Holder::ExpertView& view) const;
  [[nodiscard]] rpc::GateRow gate_row(const work::HoldingRow& row) const;

  // calls_run.cpp
  void start_route(RequestId request, rpc::RouteCall call, Outbox& out);
  void start_forward(Instant now, RequestId request, rpc::ForwardCall call, Outbox& out);
  void start_execute(Instant now, RequestId request, rpc::ExecuteCall call, Outbox& out);
  /// The execution of a call that this node can run, not yet begun.
  [[nodiscard]] Result<std::unique_ptr<forward::Execution>> make_execution(
      Instant now, rpc::ExecuteCall call, const EndpointId* router);
  [[nodiscard]] Result<std::shared_ptr<const work::Gate>> gate_for(
      const rpc::RouteCall& call) const;
  [[nodiscard]] Result<std::uint32_t> choose_top_k(const rpc::RouteCall& call,
                                                   const routing::Router& router) const;
  [[nodiscard]] Status check_size(const rpc::RouteCall& call, std::uint32_t top_k,
                                  const work::Gate& gate) const;
  void on_request_job(Instant now, RequestId request, JobId id, const work::JobResult& result,
                      Outbox& out);
  void on_execute_job(RequestId request, forward::Execution& execution,
                      const work::JobResult& result);
  void take_forward(Instant now, RequestId request, forward::Action& action, Outbox& out);
  void advance_forward(RequestId request);
  /// Lets go of what a forward has at peers; it will not finish.
  void abandon_forward(Instant now, Waiting& waiting, Outbox& out);
  void count(const forward::Tally& tally);
  void finish_route(RequestId request, const RouteWait& wait, const work::JobResult& result,
                    Outbox& out);
  void finish_forward(Instant now, RequestId request,
                      const Result<forward::ForwardOutcome>& outcome, Outbox& out);
  void finish_execute(RequestId request, const Result<forward::ExecutionOutcome>& outcome,
                      Outbox& out);
  void end_request(RequestId request, Result<rpc::Answer> answer, Outbox& out);

  // calls_load.cpp
  /// As the caller named it: `uri_hash` is yet to be read from the URI.
  void start_load(RequestId request, LayerKey layer, std::optional<ExpertIndex> expert,
                  holder::LoadSource source, Outbox& out);
  void find_load(RequestId request, Outbox& out);
  /// A load by URI whose blob the store has lost: fetched, once. False: it is over.
  [[nodiscard]] bool fetch_lost(Instant now, RequestId request, Outbox& out);
  void begin_load(RequestId request, const LayerKey& layer, std::optional<ExpertIndex> expert,
                  holder::LoadSource source, Outbox& out);
  void take_holder(Instant now, holder::Action& action, Outbox& out);
  void on_request_store(Instant now, RequestId request, const work::StoreResult& result,
                        Outbox& out);
  void on_load_store(RequestId request, const work::StoreOutput& result, Outbox& out);
  void on_request_store_failed(Instant now, RequestId request, const Error& error, Outbox& out);
  /// A job of a request or a peer leaves the node; those of experts are timed.
  void count_job(Instant now, JobId id, const work::Job& job);
  // prepared.cpp: what prepare jobs want of the node
  void take_prepare(Instant now, prepare::Action& action, Outbox& out);
  void load_prepared(Instant now, prepare::LoadPrepared& load);
  [[nodiscard]] Status is_held(const prepare::LoadPrepared& load) const;
  /// False where the load is not one of prepare's.
  bool on_prepared_loaded(Instant now, RequestId waiter, const Status& status);
  void on_expert_changed(Instant now, const holder::ExpertChanged& change);
  void on_expert_loaded(Instant now, const holder::ExpertLoaded& loaded, Outbox& out);
  void on_gate_loaded(Instant now, const holder::GateLoaded& loaded, Outbox& out);
  void on_unloaded(const holder::Unloaded& unloaded, Outbox& out);
  void on_lease_answer(Instant now, const holder::Action& action);
  void update_roles();

  // membership.cpp
  void announce_facts(Instant now);
  void on_tier_changed(Instant now, const ExpertKey& key, bool is_in_memory);
  [[nodiscard]] std::optional<Instant> next_mesh_deadline() const;
  /// Pages come in (model, layer) order; `models` are those with an expert or a gate here.
  [[nodiscard]] wire::ProviderRecord own_facts(std::vector<wire::Bytes>& pages,
                                               std::set<ModelId>& models);

  // serving.cpp: requests of peers
  void serve_exec(Instant now, work::PeerRequest request, Outbox& out);
  void serve_frame(Instant now, work::PeerRequest request, Outbox& out);
  [[nodiscard]] std::optional<Error> why_busy(std::uint64_t bytes) const;
  PeerWait& admit_peer(Instant now, const work::PeerRequest& request);
  void on_peer_job(Instant now, PeerRequestId request, JobId id, const work::JobResult& result,
                   Outbox& out);
  void on_exec_job(PeerWait& wait, const work::JobResult& result, forward::Outbox& actions);
  void on_peer_lease_answer(PeerRequestId request, const holder::Action& action);
  void advance_peer(PeerRequestId request);
  void take_peer(Instant now, PeerRequestId request, forward::Action& action, Outbox& out);
  void acquire_for_peer(PeerRequestId request, const forward::Acquire& acquire);
  void finish_exec(PeerRequestId request, forward::ServingFinished& finished, Outbox& out);
  void end_peer(PeerRequestId request);
  void tick_peers(Instant now);
  [[nodiscard]] std::optional<Instant> next_peer_deadline() const;

  // frames.cpp: those of tenzro/moe
  void on_frame_job(Instant now, PeerRequestId request, JobId id, const work::JobResult& result,
                    Outbox& out);
  void on_frame_io(Instant now, PeerRequestId request, PeerWait& wait,
                   const work::JobResult& result, Outbox& out);
  void on_frame_read(Instant now, PeerRequestId request, PeerWait& wait,
                     const work::FrameRead& read, Outbox& out);
  void answer_frame(PeerRequestId request, Result<rpc::Answer> answer, Outbox& out);
  void write_frame(PeerRequestId request, FrameWait& frame, Outbox& out);
  void finish_frame(PeerRequestId request, const Result<forward::ExecutionOutcome>& outcome,
                    Outbox& out);
  // blobs.cpp
  /// As its record has them; none where there is no record.
  [[nodiscard]] std::vector<std::string> addresses_of(const EndpointId& endpoint) const;
  [[nodiscard]] std::vector<fetch::Source> blob_sources(const BlobSearch& search) const;
  void read_blob(RequestId request, const BlobHash& hash, std::uint64_t bytes_max, Outbox& out);
  void start_fetch(Instant now, RequestId request, Outbox& out);
  void refuse_fetch(RequestId request, const Error& error, Outbox& out);
  void take_fetch(fetch::Action& action, Outbox& out);
  void on_fetched(const fetch::Finished& finished, Outbox& out);
  void let_go_of_fetched(RequestId request, Outbox& out);
  void release_fetched(const BlobHash& hash, Outbox& out);
  [[nodiscard]] fetch::Admission admission_of(const work::PeerRequest& request) const;
  void take_serving(fetch::ServingAction& action, Outbox& out);

  // repairs.cpp: copies that the mesh lacks, fetched as if this node called itself
  static constexpr std::uint64_t kOwnRequestBit = 1ULL << 62U;

  [[nodiscard]] static bool is_own(RequestId request) {
    return (static_cast<std::uint64_t>(request) & kOwnRequestBit) != 0;
  }

  void start_repairs(Instant now);
  void tick_repairs(Instant now, Outbox& out);
  void stop_repairs(Instant now, Outbox& out);
  void take_repair(Instant now, repair::Action& action, Outbox& out);
  void hear_of_peers(Instant now);
  void on_own_answers(Instant now, Outbox& out);
  [[nodiscard]] RequestId begin_own_request();
  [[nodiscard]] bool is_still_wanted(RequestId request) const;
  [[nodiscard]] repair::Room repair_room(Instant now);
  [[nodiscard]] std::uint64_t held_bytes();
  /// Bytes to take, as told to others; nothing where this node takes none.
  [[nodiscard]] std::optional<std::uint64_t> announced_room(std::uint64_t held_bytes);
  void announce_room(const wire::ProviderRecord& facts);
  [[nodiscard]] std::optional<Instant> next_repair_deadline() const;
  void begin_drop(Instant now, const repair::DropExpert& drop, Outbox& out);
  bool on_drop_store(RequestId request, const work::StoreResult& result, Outbox& out);
  void advance_drop(RequestId request, Outbox& out);
  bool on_drop_reply(PeerCallId call, const work::CallResult& result, Outbox& out);

  // drain.cpp
  struct Drain {
    Instant since;
    Instant until;
    Instant look_at;                     ///< when it is judged next
    std::optional<Instant> alone_since;  ///< nothing is held here alone that could go elsewhere
    std::uint64_t only_here = 0;
    std::uint64_t movable = 0;  ///< of those
    bool is_stuck = false;      ///< every other node leaves too
    bool is_over = false;
    // The count under way
    std::optional<ExpertKey> counted_to;
    std::uint64_t counted_only_here = 0;
    std::uint64_t counted_movable = 0;
  };

  void tick_drain(Instant now, Outbox& out);
  [[nodiscard]] bool is_only_here(const holder::Holder::ExpertView& held) const;
  bool count_only_here();
  void judge_drain(Instant now, Outbox& out);
  [[nodiscard]] std::optional<rpc::DrainProgress> drain_progress(Instant now) const;

  // node.cpp
  struct Dispatcher;
  void drop_request(Instant now, RequestId request, Outbox& out);
  [[nodiscard]] bool admits(RequestId request, const rpc::Call& call, Outbox& out);
  void queue_forward(RequestId request, forward::Outbox actions);
  void on_core_store(Instant now, Core core, JobId id, const work::StoreResult& result);
  void settle(Instant now, Outbox& out);
  void reply(RequestId request, Result<rpc::Answer> answer, Outbox& out);

  [[nodiscard]] static holder::LeaseId lease_of(RequestId request) {
    return holder::LeaseId{static_cast<std::uint64_t>(request)};
  }

  /// Of loads that no request asked for.
  static constexpr std::uint64_t kPreparedBit = 1ULL << 63U;

  /// Calls and peers' requests are numbered apart; their leases are told apart by the top bit.
  static constexpr std::uint64_t kPeerLeaseBit = 1ULL << 63U;

  [[nodiscard]] static holder::LeaseId lease_of(PeerRequestId request) {
    return holder::LeaseId{static_cast<std::uint64_t>(request) | kPeerLeaseBit};
  }

  [[nodiscard]] static std::optional<PeerRequestId> peer_of(holder::LeaseId lease) {
    const auto number = static_cast<std::uint64_t>(lease);
    if ((number & kPeerLeaseBit) == 0) return std::nullopt;
    return PeerRequestId{number & ~kPeerLeaseBit};
  }

  Options options_;
  About about_;
  const catalog::Catalog& catalog_;
  Prng& prng_;
  work::JobIds ids_;
  work::CallIds call_ids_;
  holder::Holder holder_;
  holder::Meter meter_;
  holder::ServiceMeter service_;
  std::map<JobId, std::uint64_t> expert_jobs_;  ///< rows of those under way
  shards::View view_;
  ledger::Standings standings_;
  HeldFacts facts_{holder_};
  forward::Mesh mesh_;
  prepare::Jobs prepare_;
  std::unique_ptr<Presence> presence_;  ///< null: not joined
  std::unique_ptr<Repairs> repairs_;
  std::optional<Drain> drain_;
  std::optional<Instant> peer_left_at_;  ///< when one last went from the view, for whatever reason
  std::vector<std::string> quic_addresses_;
  /// When what this node says of itself is put together again; absent: nothing changed.
  std::optional<Instant> facts_due_;
  Instant facts_made_;
  TierNews tier_news_;
  std::map<RequestId, Waiting> requests_;  // ordered: iteration reaches the outbox
  std::map<JobId, Owner> owners_;
  std::map<PeerCallId, RequestId> callers_;  ///< whose a call to a peer is
  fetch::Fetches fetches_;
  fetch::Serving serving_;
  std::map<BlobHash, FetchedBlob> fetched_;
  std::map<RequestId, BlobHash> fetched_for_;
  // What the cores put out and settle() has not yet taken; empty between events.
  holder::Outbox holder_out_;
  prepare::Outbox prepare_out_;
  fetch::Outbox fetch_out_;
  fetch::ServingOutbox serving_out_;
  std::vector<std::pair<RequestId, forward::Action>> forward_out_;
  std::vector<std::pair<PeerRequestId, forward::Action>> peer_out_;
  std::set<RequestId> touched_;
  std::set<PeerRequestId> touched_peers_;
  std::map<PeerRequestId, PeerWait> peer_requests_;
  std::uint64_t peer_bytes_ = 0;
  Totals totals_;
  std::vector<std::uint64_t> forward_us_;  ///< ring of the latest forward times
  std::size_t forward_us_next_ = 0;
  Instant started_;
  bool is_draining_ = false;
  bool is_leaving_ = false;  ///< refuses peers too
};

}  // namespace tenzro::node
