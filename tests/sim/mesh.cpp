#include "sim/mesh.hpp"

#include <cstdio>
#include <cstdlib>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"
#include "tenzro/wire/uri.hpp"

namespace tenzro::testing {
namespace {

constexpr Duration kConvergenceMax = std::chrono::seconds(120);
constexpr Duration kAskEvery = std::chrono::milliseconds(10);

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "mesh: %s\n", what.c_str());
  std::abort();
}

template <typename T>
T must(Result<rpc::Answer> answer) {
  if (!answer) give_up(answer.error().message());
  return std::get<T>(std::move(*answer));
}

}  // namespace

World::Options Mesh::world_options(const MeshSetup& setup) {
  World::Options options{
      .seed = setup.seed, .nodes = setup.nodes, .link = setup.link, .disk_bytes = setup.disk_bytes};
  options.tune = [tune = setup.tune](std::size_t index, node::Options& node) {
    // Everyone is told of node 0, as an operator would.
    if (index != 0) node.bootstrap = {"10.0.0.1:9001"};
    if (tune) tune(index, node);
  };
  return options;
}

Mesh::Mesh(const MeshSetup& setup)
    : world(world_options(setup)), layer(make_mesh_layer(setup.seed, setup.type)), setup_(setup) {
  must<rpc::GateRow>(world.call(0, mesh_gate_load(layer)));
  for (ExpertIndex e = 0; e < layer.experts.size(); ++e) {
    for (const std::size_t holder : holders_of(e)) {
      rpc::ExpertLoadCall load = mesh_expert_load(layer, e);
      // Beside its bytes: what it hashes to is then declared.
      if (setup.by_uri) load.uri = wire::format_blob_uri(crypto::blake3(load.blob.bytes()));
      must<rpc::ExpertRow>(world.call(holder, std::move(load)));
    }
  }
  const auto all_know = [&] {
    for (std::size_t i = 0; i < world.size(); ++i) {
      if (!knows_all(i)) return false;
    }
    return true;
  };
  if (!wait_until(all_know, kConvergenceMax)) give_up("the views do not converge");
}

bool Mesh::wait_until(const std::function<bool()>& is_done, Duration time) {
  const Instant end = world.now() + time;
  while (!is_done()) {
    if (world.now() >= end) return false;
    world.run_for(kAskEvery);
  }
  return true;
}

std::vector<std::size_t> Mesh::holders_of(ExpertIndex expert) const {
  std::vector<std::size_t> holders;
  const std::size_t count = setup_.nodes - 1;
  for (std::size_t r = 0; r < std::min(setup_.replicas, count); ++r) {
    holders.push_back(1 + (expert + r) % count);
  }
  return holders;
}

bool Mesh::knows_all(std::size_t index) {
  const auto map = must<rpc::ShardMapAnswer>(
      world.call(index, rpc::ShardMapCall{mesh_gate_load(layer).key.model}));
  if (map.holders.size() != layer.experts.size()) return false;
  for (const auto& row : map.holders) {
    if (row.holders.size() != holders_of(row.slot.expert).size()) return false;
  }
  return true;
}

std::string Mesh::view_of(std::size_t index) {
  const auto map = must<rpc::ShardMapAnswer>(
      world.call(index, rpc::ShardMapCall{mesh_gate_load(layer).key.model}));
  std::string text;
  for (const auto& row : map.holders) {
    text += "e" + std::to_string(row.slot.expert) + ":";
    for (const auto& holder : row.holders) {
      text +=
          " " + to_hex(holder.provider) + (holder.residency == rpc::Residency::warm ? "w" : "c");
    }
    text += "\n";
  }
  return text;
}

std::string Mesh::expected(const rpc::ForwardCall& call) {
  if (alone_ == nullptr) {
    alone_ = std::make_unique<World>(World::Options{.seed = setup_.seed, .nodes = 1});
    must<rpc::GateRow>(alone_->call(0, mesh_gate_load(layer)));
    for (ExpertIndex e = 0; e < layer.experts.size(); ++e) {
      must<rpc::ExpertRow>(alone_->call(0, mesh_expert_load(layer, e)));
    }
  }
  return bits_of(must<rpc::ForwardAnswer>(alone_->call(0, call)));
}

Result<rpc::ForwardAnswer> Mesh::forward(const rpc::ForwardCall& call) {
  auto answer = world.call(0, call);
  if (!answer) return fail(answer.error());
  return std::get<rpc::ForwardAnswer>(std::move(*answer));
}

}  // namespace tenzro::testing
