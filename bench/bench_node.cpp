#include "bench_node.hpp"

#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "tenzro/base/bytes.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/net/endpoint.hpp"
#include "tenzro/store/identity.hpp"

#include "daemon/downloader.hpp"
#include "daemon/node_shell.hpp"

namespace tenzro::bench {
namespace {

template <typename T>
T expect(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "bench node: %s\n", result.error().message().c_str());
  std::exit(1);
}

}  // namespace

struct BenchNode::State {
  explicit State(const Options& options);

  exec::Loop loop;
  store::FileSystem files;
  store::DataDir dir;
  crypto::KeyPair key;
  std::unique_ptr<compute::Backend> backend;
  exec::Pool pool;
  std::unique_ptr<store::Store> store;
  catalog::Catalog catalog;
  Prng prng{11};
  std::unique_ptr<node::Node> node;
  std::unique_ptr<daemon::NodeShell> shell;
  std::unique_ptr<net::Endpoint> endpoint;
  std::unique_ptr<http::Client> http_client;
  std::unique_ptr<daemon::Downloader> downloader;
  std::thread thread;
};

BenchNode::State::State(const Options& options)
    : dir(expect(store::DataDir::open(options.data_dir,
                                      options.files == nullptr ? files : *options.files))),
      key(crypto::KeyPair::from_seed(expect(store::load_or_create_identity(dir)).seed)),
      backend(expect(kernels::make_cpu_backend({}))),
      pool(exec::PoolOptions{.threads = options.threads}),
      catalog(expect(catalog::Catalog::builtin())) {
  const store::Options store_options{.threads = options.store_threads};
  auto opened = store::Store::open(dir, store_options, [this](JobId id, work::StoreResult result) {
    loop.post([this, id, result = std::move(result)] { shell->on_stored(id, result); });
  });
  if (!opened) expect<int>(fail(opened.error()));
  store = std::move(opened->store);
  node::Options node_options;
  node_options.bootstrap = options.bootstrap;
  node_options.holder = options.holder;
  const node::About about{.version = "bench",
                          .name = "bench",
                          .endpoint_id = key.public_key(),
                          .provider = key.address(),
                          .compute_backend = std::string(backend->name())};
  node = std::make_unique<node::Node>(node_options, about, catalog, prng);
  shell = std::make_unique<daemon::NodeShell>(
      daemon::Workshop{loop, pool, *store, {*backend, pool, key}}, *node);
  endpoint = expect(net::Endpoint::listen(loop, key, {.listen = "127.0.0.1:0"}, *shell));
  shell->set_endpoint(endpoint.get());
  http_client = std::make_unique<http::Client>(loop);
  downloader = std::make_unique<daemon::Downloader>(
      *http_client, key, "", [this](PeerCallId call, const work::Downloaded& downloaded) {
        shell->on_downloaded(call, downloaded);
      });
  shell->set_downloader(downloader.get());
  node->set_addresses("", "", endpoint->address(), {endpoint->address()});
  thread = std::thread([this, rows = std::move(opened->rows)] {
    loop.post([this, &rows] { shell->begin(rows, {}, [] {}); });
    loop.run();
  });
}

BenchNode::BenchNode(const Options& options) : state_(std::make_unique<State>(options)) {}

BenchNode::~BenchNode() {
  state_->loop.post([this] { state_->loop.stop(); });
  state_->thread.join();
}

rpc::Answer BenchNode::call(rpc::Call call) {
  std::promise<Result<rpc::Answer>> promise;
  auto answer = promise.get_future();
  auto shared = std::make_shared<rpc::Call>(std::move(call));
  state_->loop.post([this, shared, &promise] {
    state_->shell->call(std::move(*shared), [&promise](Result<rpc::Answer> result) {
      promise.set_value(std::move(result));
    });
  });
  return expect(answer.get());
}

void BenchNode::set_memory_budget(std::uint64_t bytes) {
  std::promise<void> done;
  state_->loop.post([this, bytes, &done] {
    state_->shell->set_memory_budget(bytes);
    done.set_value();
  });
  done.get_future().get();
}

std::string BenchNode::id() const {
  return to_hex(state_->key.public_key());
}

std::string BenchNode::entry() const {
  return id() + "@" + state_->endpoint->address();
}

}  // namespace tenzro::bench
