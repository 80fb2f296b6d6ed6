#include "service.hpp"

#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <spdlog/spdlog.h>
#include <sys/random.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/store/addresses.hpp"
#include "tenzro/store/identity.hpp"

#include "blob_service.hpp"
#include "downloader.hpp"
#include "http_caller.hpp"
#include "log.hpp"
#include "memory_budget.hpp"
#include "memory_watch.hpp"
#include "metrics_page.hpp"
#include "own_addresses.hpp"
#include "rpc_service.hpp"
#include "signals.hpp"
#include "version.hpp"

namespace tenzro::daemon {
namespace {

constexpr std::chrono::seconds kDrainMax{9};
/// Threads of the store. Why so many: experts on disk are read side by side, and disks give all
/// they have to several readers only.
constexpr std::size_t kStoreThreads = 8;

tl::unexpected<Refusal> refuse(ExitCode code, const Error& error) {
  return tl::unexpected<Refusal>(Refusal{code, error.message()});
}

ExitCode storage_exit(const Error& error) {
  return error.code == ErrorCode::busy ? ExitCode::locked : ExitCode::storage;
}

std::string environment(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read at start, before any thread exists
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Ours, else what other programs that use the hub look at.
std::string hub_token() {
  const std::string own = environment("TENZRO_HUB_TOKEN");
  return checked_token(own.empty() ? environment("HF_TOKEN") : own);
}

struct Compute {
  compute::Registry registry;
  compute::Backend* backend = nullptr;
  Base64Kernels base64{};
};

/// TENZRO_ISA forces an instruction set, TENZRO_BACKEND a backend; each that is not there is a
/// refusal.
Started<std::unique_ptr<Compute>> make_compute(const config::ComputeSection& section,
                                               const Seams& seams) {
  auto made = std::make_unique<Compute>();
  kernels::CpuOptions options;
  if (const std::string isa = environment("TENZRO_ISA"); !isa.empty()) {
    options.isa = kernels::isa_from_name(isa);
    if (!options.isa) {
      return refuse(ExitCode::backend,
                    {ErrorCode::invalid_params, "TENZRO_ISA",
                     "'" + echo(isa) + "' is not one of scalar, avx2, avx512, avx512vnni, amx"});
    }
  }
  auto cpu = kernels::make_cpu_backend(options);
  if (!cpu) return refuse(ExitCode::backend, cpu.error());
  made->registry.add(seams.wrap_backend ? seams.wrap_backend(std::move(*cpu)) : std::move(*cpu));
  const std::string forced = environment("TENZRO_BACKEND");
  auto backend = made->registry.choose(forced.empty() ? section.backend : forced);
  if (!backend) return refuse(ExitCode::backend, backend.error());
  made->backend = *backend;
  made->base64 = kernels::base64_kernels(options.isa.value_or(kernels::best_isa()));
  return made;
}

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) std::abort();
  return seed;
}

node::ExecuteRule execute_rule(std::string_view name) {
  if (name == "open") return node::ExecuteRule::open;
  if (name == "allowlist") return node::ExecuteRule::allowlist;
  if (name == "token") return node::ExecuteRule::token;
  return node::ExecuteRule::mesh;
}

/// Of checked text (startup.cpp).
std::set<EndpointId> endpoint_ids(const std::vector<std::string>& texts) {
  std::set<EndpointId> ids;
  for (const std::string& text : texts) {
    if (const auto id = hash_from_hex(text)) ids.insert(*id);
  }
  return ids;
}

node::Options node_options(const config::Config& config) {
  node::Options options;
  if (config.holder.memory_budget) {
    options.holder.memory_budget_bytes = *config.holder.memory_budget;
    spdlog::info("memory budget bytes={}", *config.holder.memory_budget);
  } else {
    const MemoryBudget budget = automatic_memory_budget("");
    options.holder.memory_budget_bytes = budget.bytes;
    spdlog::info("memory budget bytes={} reason=\"{}\"", budget.bytes, budget.reason);
  }
  options.holder.verifies_every_read = config.holder.verify == "always";
  options.prepare.jobs_max = config.prepare.jobs_max;
  options.repair = {.interval = std::chrono::seconds(config.repair.interval_s),
                    .grace = std::chrono::seconds(config.repair.grace_s),
                    .max_admissions = config.repair.max_admissions,
                    .bytes_per_s = config.repair.rate,
                    .models = {config.repair.models.begin(), config.repair.models.end()},
                    .held_bytes_max = config.repair.held_max,
                    .drops_surplus = !config.gossip.allow.empty()};
  options.prepare.source.hub_url = config.prepare.hub_url;
  options.prepare.source.plain_http = config.prepare.plain_http;
  options.prepare.source.ranges_max = config.prepare.ranges_max;
  options.policy = {config.policy.min_replication, config.policy.max_replication,
                    config.policy.hot_threshold_tps};
  options.forward_deadline = std::chrono::milliseconds(config.forward.deadline_ms);
  options.forward.attempt_timeout = std::chrono::milliseconds(config.forward.attempt_timeout_ms);
  options.forward.hedges = config.forward.hedge;
  options.forward.replans_max = config.forward.max_replans;
  options.profile =
      config.compute.profile == "fast" ? compute::Profile::fast : compute::Profile::exact;
  if (config.forward.carrier == "dense") options.carrier = rpc::CarrierChoice::dense;
  if (config.forward.carrier == "q8") options.carrier = rpc::CarrierChoice::q8;
  options.min_kept_mass = config.forward.min_kept_mass;
  options.requests_max = config.holder.queue_max;
  options.execute = execute_rule(config.holder.execute);
  options.fetch.receive_bytes_per_s = config.holder.receive_rate;
  options.serving.send_bytes_per_s = config.holder.send_rate;
  for (const std::string& id : config.gossip.allow) {
    if (const auto endpoint = hash_from_hex(id)) options.execute_allow.insert(*endpoint);
  }
  for (const std::string& name : config.node.roles) {
    if (const auto role = shards::role_from_name(name)) options.roles.insert(*role);
  }
  options.price_per_input_token = config.holder.price_per_input_token;
  options.minimum_price = config.holder.minimum_price;
  options.bootstrap = config.gossip.bootstrap;
  options.heartbeat = std::chrono::seconds(config.gossip.heartbeat_s);
  options.ttl = std::chrono::seconds(config.gossip.ttl_s);
  options.fanout = config.gossip.fanout;
  options.allow = endpoint_ids(config.gossip.allow);
  options.deny = endpoint_ids(config.gossip.deny);
  return options;
}

/// `advertise` as configured: an address, `none`, or nothing said.
std::vector<std::string> announced_quic(const std::string& advertise, const std::string& bound) {
  if (advertise == "none") return {};
  return advertise.empty() ? reachable_addresses(bound) : std::vector{advertise};
}

class Service final : public http::Handler {
 public:
  [[nodiscard]] static Started<std::unique_ptr<Service>> start(const Settings& settings,
                                                               const Seams& seams);
  ~Service() override;
  ExitCode run();

  void on_rpc(http::RequestRef id, BufferRef body, const http::Caller& caller) override {
    rpc_->on_body(id, std::move(body), caller);
  }

  void on_page(http::RequestRef id, http::Page page) override;

  void on_blob(http::RequestRef id, const BlobHash& hash, const http::Caller& caller) override {
    blobs_->on_get(id, hash, caller);
  }

  void on_blob_piece_wanted(http::RequestRef id, const BlobHash& hash, std::uint64_t offset,
                            std::size_t size) override {
    blobs_->on_piece_wanted(id, hash, offset, size);
  }

  void on_put_begun(http::RequestRef id, std::optional<std::uint64_t> size) override {
    blobs_->on_put_begun(id, size);
  }

  void on_put_piece(http::RequestRef id, BufferRef piece) override {
    blobs_->on_put_piece(id, std::move(piece));
  }

  void on_put_ended(http::RequestRef id) override { blobs_->on_put_ended(id); }

  void on_request_gone(http::RequestRef id) override {
    rpc_->on_gone(id);
    blobs_->on_gone(id);
  }

 private:
  Service(const Settings& settings, const Seams& seams)
      : settings_(settings),
        seams_(seams),
        prng_(random_seed()),
        signals_(loop_.context()),
        drain_timer_(loop_.context()) {}

  Started<void> open_storage();
  Started<void> open_node();
  Started<void> open_endpoint();
  Started<void> open_server();
  [[nodiscard]] node::About about() const;
  void on_ready();
  void await_signal();
  void begin_drain(const char* why);
  void close_when_served();

  Settings settings_;
  Seams seams_;
  Prng prng_;
  exec::Loop loop_;
  store::FileSystem files_;
  std::optional<store::DataDir> dir_;
  std::optional<crypto::KeyPair> key_;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<exec::Pool> pool_;
  std::unique_ptr<store::Store> store_;
  std::vector<work::HoldingRow> rows_;
  std::vector<work::LoggedJob> jobs_;
  std::optional<catalog::Catalog> catalog_;
  std::unique_ptr<node::Node> node_;
  std::unique_ptr<NodeShell> shell_;
  std::unique_ptr<http::Client> http_client_;
  std::unique_ptr<HttpCaller> http_caller_;
  std::unique_ptr<Downloader> downloader_;
  std::unique_ptr<RpcService> rpc_;
  std::unique_ptr<BlobService> blobs_;
  std::unique_ptr<net::Endpoint> endpoint_;
  std::unique_ptr<http::Server> server_;
  std::optional<MemoryWatch> memory_watch_;  ///< absent where the operator fixed the budget
  asio::signal_set signals_;
  asio::steady_timer drain_timer_;
  ExitCode exit_code_ = ExitCode::done;
  bool is_draining_ = false;
};

Started<std::unique_ptr<Service>> Service::start(const Settings& settings, const Seams& seams) {
  std::unique_ptr<Service> service(new Service(settings, seams));
  auto compute = make_compute(settings.config.compute, seams);
  if (!compute) return tl::unexpected<Refusal>(compute.error());
  service->compute_ = std::move(*compute);
  Started<void> step = service->open_storage();
  if (step) step = service->open_node();
  if (step) step = service->open_endpoint();
  if (step) step = service->open_server();
  if (!step) return tl::unexpected<Refusal>(step.error());
  return service;
}

Started<void> Service::open_storage() {
  auto dir = store::DataDir::open(settings_.data_dir, files_);
  if (!dir) return refuse(storage_exit(dir.error()), dir.error());
  dir_ = std::move(*dir);
  for (const std::string& warning : dir_->warnings()) spdlog::warn("{}", warning);
  if (auto status = store::remove_addresses(*dir_); !status)
    return refuse(ExitCode::storage, status.error());
  const auto identity = store::load_or_create_identity(*dir_);
  if (!identity) return refuse(ExitCode::storage, identity.error());
  if (identity->warning) spdlog::warn("{}", *identity->warning);
  key_ = crypto::KeyPair::from_seed(identity->seed);
  const store::Options options{.blob_dir = settings_.config.holder.disk_dir,
                               .disk_budget_bytes = settings_.config.holder.disk_budget,
                               .threads = kStoreThreads};
  auto opened = store::Store::open(*dir_, options, [this](JobId id, work::StoreResult result) {
    loop_.post([this, id, result = std::move(result)] {
      if (shell_ != nullptr) shell_->on_stored(id, result);
    });
  });
  if (!opened) return refuse(storage_exit(opened.error()), opened.error());
  for (const std::string& warning : opened->warnings) spdlog::warn("{}", warning);
  store_ = std::move(opened->store);
  rows_ = std::move(opened->rows);
  jobs_ = std::move(opened->jobs);
  return {};
}

node::About Service::about() const {
  const std::string id = to_hex(key_->public_key());
  return {.version = kVersion,
          .name = settings_.config.node.name.empty() ? id.substr(0, 8) : settings_.config.node.name,
          .endpoint_id = key_->public_key(),
          .provider = key_->address(),
          .http_endpoint = settings_.config.http.advertise,
          .compute_backend = std::string(compute_->backend->name()),
          .has_gpu = !compute_->backend->name().starts_with("cpu"),
          .threads = static_cast<std::uint32_t>(pool_->concurrency())};
}

Started<void> Service::open_node() {
  const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::uint32_t threads = settings_.config.compute.threads;
  pool_ =
      std::make_unique<exec::Pool>(exec::PoolOptions{.threads = threads == 0 ? cores : threads});
  auto catalog = catalog::Catalog::builtin();
  if (!catalog) return refuse(ExitCode::failed, catalog.error());
  catalog_ = std::move(*catalog);
  node_ = std::make_unique<node::Node>(node_options(settings_.config), about(), *catalog_, prng_);
  const Workshop workshop{loop_,
                          *pool_,
                          *store_,
                          {*compute_->backend, *pool_, *key_, compute_->base64},
                          settings_.config.holder.disk_dir.empty()
                              ? dir_->path_of("blobs")
                              : settings_.config.holder.disk_dir};
  shell_ = std::make_unique<NodeShell>(workshop, *node_);
  rpc_ = std::make_unique<RpcService>(
      RpcService::Options{.batch_max = settings_.config.rpc.max_batch,
                          .answers_bytes_max = settings_.config.rpc.max_answers_bytes,
                          .base64 = compute_->base64,
                          .executes_for_anyone = settings_.config.holder.execute == "open"},
      workshop, *shell_);
  blobs_ = std::make_unique<BlobService>(
      loop_, *store_, [this](const EndpointId& endpoint) { return node_->may_fetch(endpoint); });
  return {};
}

Started<void> Service::open_endpoint() {
  auto endpoint = seams_.listen(loop_, *key_, {.listen = settings_.config.quic.listen}, *shell_);
  if (!endpoint) return refuse(ExitCode::address_busy, endpoint.error());
  endpoint_ = std::move(*endpoint);
  shell_->set_endpoint(endpoint_.get());
  http_client_ = std::make_unique<http::Client>(loop_);
  http_caller_ = std::make_unique<HttpCaller>(
      loop_, *pool_, *key_, *http_client_, [this](PeerCallId call, const work::CallResult& result) {
        shell_->on_peer_reply(call, result);
      });
  shell_->set_http_caller(http_caller_.get());
  downloader_ =
      std::make_unique<Downloader>(*http_client_, *key_, hub_token(),
                                   [this](PeerCallId call, const work::Downloaded& downloaded) {
                                     shell_->on_downloaded(call, downloaded);
                                   });
  shell_->set_downloader(downloader_.get());
  return {};
}

Started<void> Service::open_server() {
  auto server = http::Server::listen(loop_, settings_.http, *this);
  if (!server) return refuse(ExitCode::address_busy, server.error());
  server_ = std::move(*server);
  rpc_->set_server(server_.get());
  blobs_->set_server(server_.get());
  const std::string address = server_->address().text();
  const std::string advertised = settings_.config.http.advertise;
  const std::string scheme = settings_.http.tls_cert_file.empty() ? "http://" : "https://";
  const std::string bound = endpoint_->address();
  node_->set_addresses(address,
                       advertised.empty() ? reachable_endpoint(scheme, address, bound) : advertised,
                       bound, announced_quic(settings_.config.quic.advertise, bound));
  return {};
}

Service::~Service() {
  // The server calls into the services, the shell's results come from pool and store: stop those
  // that call first.
  server_.reset();
  pool_.reset();
  store_.reset();
}

ExitCode Service::run() {
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.add(SIGHUP);
  release_signals();
  await_signal();
  spdlog::info("tenzrod version={} endpoint_id={} provider={} rpc={} backend={} threads={}",
               kVersion, to_hex(key_->public_key()), to_hex(key_->address()),
               server_->address().text(), compute_->backend->name(), pool_->concurrency());
  shell_->begin(std::exchange(rows_, {}), std::exchange(jobs_, {}), [this] { on_ready(); });
  shell_->when_drained([this] {
    if (!is_draining_) begin_drain("drained");
  });
  loop_.run();
  if (auto status = store::remove_addresses(*dir_); !status)
    spdlog::warn("{}", status.error().message());
  return exit_code_;
}

void Service::on_ready() {
  const store::Addresses addresses{.rpc = server_->address().text(),
                                   .quic = endpoint_->address(),
                                   .endpoint_id = key_->public_key(),
                                   .provider = key_->address()};
  if (auto status = store::write_addresses(*dir_, addresses); !status) {
    spdlog::error("{}", status.error().message());
    exit_code_ = ExitCode::storage;  // nobody would find the node
    loop_.stop();
    return;
  }
  if (!settings_.config.holder.memory_budget) {
    memory_watch_.emplace(loop_.context(), node_->holder().memory_budget_bytes(),
                          [this](std::uint64_t bytes) { shell_->set_memory_budget(bytes); });
  }
  spdlog::info("ready rpc={} quic={} experts={} gates={}", addresses.rpc, addresses.quic,
               node_->holder().experts().size(), node_->holder().gates().size());
}

void Service::await_signal() {
  signals_.async_wait([this](const std::error_code& error, int signal) {
    if (error) return;
    if (signal == SIGHUP) {  // a terminal that closes, or a log that was rotated: no reason to go
      spdlog::info("SIGHUP: nothing is read anew, a restart does that");
      return await_signal();
    }
    if (is_draining_) {
      spdlog::warn("second signal {}: ending at once", signal);
      std::_Exit(static_cast<int>(ExitCode::failed));
    }
    begin_drain(signal == SIGTERM ? "SIGTERM" : "SIGINT");
    await_signal();
  });
}

void Service::begin_drain(const char* why) {
  is_draining_ = true;
  node_->drain();
  spdlog::info("ending reason={} requests={}", why, node_->requests_in_progress());
  drain_timer_.expires_after(kDrainMax);
  drain_timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    spdlog::warn("still busy after {} s: ending with {} requests unanswered", kDrainMax.count(),
                 node_->requests_in_progress());
    // What still runs is not waited for: everything acknowledged is on disk.
    if (auto status = store::remove_addresses(*dir_); !status)
      spdlog::warn("{}", status.error().message());
    std::_Exit(static_cast<int>(ExitCode::done));
  });
  // Goodbye first: nobody sends new work, and what is under way ends.
  shell_->leave([this] { server_->drain([this] { close_when_served(); }); });
}

void Service::close_when_served() {
  shell_->when_peers_are_served([this] { endpoint_->close([this] { loop_.stop(); }); });
}

void Service::on_page(http::RequestRef id, http::Page page) {
  const auto text = [&](int status, const std::string& body) {
    server_->reply(id, {.status = status,
                        .content_type = "text/plain; version=0.0.4",
                        .body = BufferRef::copy_of(body)});
  };
  switch (page) {
    case http::Page::metrics:
      if (!settings_.config.metrics.enabled)
        return text(404, "metrics are disabled by the configuration\n");
      return text(200, metrics_page({*node_, *server_, *http_client_, *endpoint_, *pool_, *store_,
                                     rpc_->answers_bytes()},
                                    loop_.now()));
    case http::Page::healthz:
      return text(200, "ok\n");
    case http::Page::readyz:
      if (node_->is_draining()) return text(503, "draining\n");
      return node_->is_ready() ? text(200, "ready\n") : text(503, "loading gates\n");
  }
}

}  // namespace

ExitCode run_service(const Settings& settings, const Seams& seams) {
  set_up_log(settings.config.node);
  auto service = Service::start(settings, seams);
  if (!service) {
    spdlog::error("{}", service.error().text);
    return service.error().code;
  }
  return (*service)->run();
}

}  // namespace tenzro::daemon
