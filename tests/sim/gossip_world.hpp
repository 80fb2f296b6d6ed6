#pragma once
/// \file
/// A mesh of gossip cores on a virtual clock: calls take time, get lost, and stop at partitions,
/// all by seed. A lost call is never answered; an unreachable address fails at once, as a closed
/// port does. Signatures are checked once for all nodes.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "tenzro/base/prng.hpp"
#include "tenzro/crypto/ed25519.hpp"
#include "tenzro/gossip/gossip.hpp"

namespace tenzro::testing {

class GossipWorld {
 public:
  struct Setup {
    std::size_t nodes = 10;
    std::uint64_t seed = 1;
    /// Calls that are lost, half of them before and half after the peer heard them.
    unsigned loss_per_mille = 0;
    Duration delay_min = std::chrono::milliseconds(5);
    Duration delay_max = std::chrono::milliseconds(50);
    gossip::Options options;
    /// The first nodes are everybody's bootstrap.
    std::size_t bootstraps = 2;
    /// Experts that each node holds at start.
    std::uint32_t holdings = 3;
  };

  explicit GossipWorld(Setup setup);
  ~GossipWorld();

  void run_for(Duration time);

  [[nodiscard]] Instant now() const { return now_; }

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  [[nodiscard]] gossip::Gossip& core(std::size_t node);
  [[nodiscard]] const ProviderAddress& address(std::size_t node) const;
  [[nodiscard]] const EndpointId& key(std::size_t node) const;

  /// One more expert on that node.
  void add_holding(std::size_t node);
  /// Without a word.
  void crash(std::size_t node);
  void restart(std::size_t node);
  void leave(std::size_t node);
  /// Nodes of different groups do not reach each other.
  void partition(std::vector<unsigned> groups);
  void heal();
  /// Bytes into a node as if `from` had called it; false where they were refused.
  bool inject(std::size_t from, std::size_t to, const BufferRef& bytes);

  [[nodiscard]] bool is_up(std::size_t node) const;
  /// Whether `node` has the newest record of `other` and thinks it alive.
  [[nodiscard]] bool knows(std::size_t node, std::size_t other) const;
  [[nodiscard]] std::size_t count_knowing(std::size_t other) const;
  /// Every node that is up knows every other that is up, and nobody else.
  [[nodiscard]] bool views_are_equal() const;
  [[nodiscard]] std::uint64_t bytes_sent() const;
  [[nodiscard]] std::uint64_t record_bytes_sent() const;
  /// Peers called down, over all nodes.
  [[nodiscard]] std::uint64_t downs() const;

  /// Signatures that nodes asked to be checked, over all nodes.
  [[nodiscard]] std::uint64_t signature_checks() const { return checks_; }

  [[nodiscard]] const std::vector<std::string>& notices() const { return notices_; }

  /// Equal for equal runs.
  [[nodiscard]] std::uint64_t trace() const { return trace_; }

 private:
  class Memo;
  struct NodeState;
  enum class Kind : std::uint8_t { tick, request, reply };

  struct Event {
    Instant at;
    std::uint64_t order = 0;
    Kind kind = Kind::tick;
    std::size_t node = 0;
    std::size_t from = 0;
    std::uint64_t life = 0;  ///< of `node`; an event for an earlier one is void
    std::uint64_t call = 0;  ///< PeerCallId
    std::uint64_t from_life = 0;
    bool is_lost_on_return = false;
    std::optional<BufferRef> bytes;  ///< absent in a reply: the call failed

    bool operator>(const Event& other) const {
      return std::tuple(at, order) > std::tuple(other.at, other.order);
    }
  };

  struct Open {  ///< a request being answered
    std::size_t from = 0;
    std::uint64_t from_life = 0;
    std::uint64_t call = 0;
    bool is_lost_on_return = false;
  };

  void start(std::size_t node);
  void set_facts(std::size_t node);
  void handle(const Event& event);
  void take(std::size_t node, gossip::Outbox& actions);
  void on_call(std::size_t node, work::SendCall& call);
  void arm(std::size_t node);
  void push(Event event);
  [[nodiscard]] Duration delay();
  [[nodiscard]] bool are_apart(std::size_t a, std::size_t b) const;

  Setup setup_;
  Prng prng_;
  Instant now_{std::chrono::seconds(1)};
  std::uint64_t last_order_ = 0;
  std::uint64_t last_request_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::unique_ptr<NodeState>> nodes_;
  std::map<EndpointId, std::size_t> by_key_;
  std::map<PeerRequestId, Open> open_;
  std::vector<unsigned> groups_;
  std::unordered_set<std::uint64_t> verified_;
  std::uint64_t checks_ = 0;
  std::vector<std::string> notices_;
  std::uint64_t trace_ = 0;
  bool was_refused_ = false;
};

}  // namespace tenzro::testing
