#pragma once
/// \file
/// A simulated mesh that serves one layer: node 0 routes and holds the gate, the others hold the
/// experts, each of them `replicas` times. What it must answer is what one node alone answers.
#include <cstdint>
#include <optional>
#include <string>

#include "tenzro/rpc/answer.hpp"

#include "sim/mesh_layer.hpp"
#include "sim/world.hpp"

namespace tenzro::testing {

struct MeshSetup {
  std::uint64_t seed = 1;
  std::size_t nodes = 4;
  std::size_t replicas = 2;
  tensor::WeightType type = tensor::WeightType::q8_0;
  LinkOptions link;
  std::uint64_t disk_bytes = 0;  ///< of every node; 0: they repair nothing
  /// Experts are declared with the URI of their bytes, so that others can fetch them.
  bool by_uri = false;
  std::function<void(std::size_t, node::Options&)> tune;
};

class Mesh {
 public:
  /// Loads everything and waits until every node's view shows it.
  explicit Mesh(const MeshSetup& setup);

  World world;
  MeshLayer layer;

  /// The nodes that were given an expert.
  [[nodiscard]] std::vector<std::size_t> holders_of(ExpertIndex expert) const;
  /// Asks every few milliseconds; what `is_done` said last.
  bool wait_until(const std::function<bool()>& is_done, Duration time);
  /// Whether the node's shard map lists every expert with its replicas.
  [[nodiscard]] bool knows_all(std::size_t index);
  /// The shard map as one comparable text: who holds what, how warm.
  [[nodiscard]] std::string view_of(std::size_t index);

  /// What one node that holds everything answers to this call, as bytes.
  [[nodiscard]] std::string expected(const rpc::ForwardCall& call);
  Result<rpc::ForwardAnswer> forward(const rpc::ForwardCall& call);

 private:
  [[nodiscard]] static World::Options world_options(const MeshSetup& setup);

  MeshSetup setup_;
  std::unique_ptr<World> alone_;
};

/// The outputs of an answer, as bytes.
[[nodiscard]] inline std::string bits_of(const rpc::ForwardAnswer& answer) {
  return std::string(answer.outputs.text());
}

}  // namespace tenzro::testing
