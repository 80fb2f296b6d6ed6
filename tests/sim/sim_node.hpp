#pragma once
/// \file
/// One process of the simulated mesh: a real node::Node with its key, its disk and its one compute
/// worker.
///
/// The process may die and come back; its disk and key outlive it. What it wants done is handed to
/// the world through `Effects`, the one thing it knows of the outside.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenzro/catalog/catalog.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/crypto/signing.hpp"
#include "tenzro/node/node.hpp"

#include "support/map_store.hpp"

namespace tenzro::testing {

/// The wall clock of every process at the start of virtual time.
inline constexpr std::uint64_t kWallOriginMs = 1'800'000'000'000;

/// What one node may do to the world. All callbacks run later, on the world's clock.
class Effects {
 public:
  virtual ~Effects() = default;
  [[nodiscard]] virtual Instant now() const = 0;
  /// Runs `event` after `delay`, unless the process of node `index` has died by then.
  virtual void after(std::size_t index, Duration delay, std::function<void()> event) = 0;
  virtual void on_answer(std::size_t index, RequestId request, Result<rpc::Answer> answer) = 0;
  /// A call, cancellation, reply or refusal.
  virtual void on_peer_action(std::size_t index, node::Action action) = 0;
};

class SimNode {
 public:
  struct Setup {
    std::size_t index = 0;
    std::uint64_t seed = 0;
    node::Options options;
    std::string address;
    /// Bytes of blobs; 0: it is not said, and the node repairs nothing.
    std::uint64_t disk_bytes = 0;
    compute::Backend* backend = nullptr;
    const catalog::Catalog* catalog = nullptr;
  };

  SimNode(const Setup& setup, Effects& effects);

  void start();
  /// The process is gone at once, without a word.
  void crash();

  /// An operator's disk is lost too.
  void wipe_disk() { store_ = MapStore(); }

  /// The wall clock of its machine is set forward or back; it stays so when the process restarts.
  void set_clock(std::chrono::milliseconds ahead);

  [[nodiscard]] bool is_up() const { return node_ != nullptr; }

  [[nodiscard]] node::Node& node() { return *node_; }

  [[nodiscard]] const node::Node& node() const { return *node_; }

  [[nodiscard]] const EndpointId& endpoint_id() const { return key_.public_key(); }

  [[nodiscard]] ProviderAddress provider() const { return key_.address(); }

  [[nodiscard]] const std::string& address() const { return setup_.address; }

  [[nodiscard]] MapStore& store() { return store_; }

  /// Of blobs in its store.
  [[nodiscard]] std::uint64_t stored_bytes() const;

  [[nodiscard]] std::uint64_t disk_bytes() const { return setup_.disk_bytes; }

  [[nodiscard]] const std::vector<std::string>& notices() const { return notices_; }

  /// Gives the node an event; a process that is down hears nothing.
  void deliver(const std::function<void(node::Node&, node::Outbox&)>& event);

  /// How much slower than one worker of a healthy node this one computes, in per cent.
  std::uint64_t slowness_percent = 100;
  /// How many jobs run at a time.
  std::size_t workers = 1;
  /// What the check of an expert's blob costs beside the fixed part of a job.
  Duration admit_cost{0};
  /// Changes what the node's compute worker found out, before the node sees (and signs) it.
  std::function<void(const work::Job&, work::JobResult&)> corrupt_job;
  /// An error instead of a store operation.
  std::function<Status(const work::StoreOp&)> store_fault;

 private:
  void take(node::Outbox actions);
  void run(node::Run run);
  void operate(node::Store store);
  void rearm();
  void tell_disk();
  [[nodiscard]] std::uint64_t wall_ms() const;

  Setup setup_;
  Effects& effects_;
  crypto::KeyPair key_;
  crypto::KeySigning signing_{key_};
  MapStore store_;
  std::chrono::milliseconds clock_ahead_{0};
  Prng prng_;
  compute::SerialExecutor executor_;
  std::unique_ptr<node::Node> node_;
  std::vector<Instant> workers_free_at_;
  std::uint64_t tick_generation_ = 0;
  std::optional<Instant> armed_for_;
  std::vector<std::string> notices_;
};

}  // namespace tenzro::testing
