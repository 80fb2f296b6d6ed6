#pragma once
/// \file
/// A mesh of real nodes in one thread: a virtual clock, one queue of events in (time, order of
/// insertion), a network that delays, loses, resets, clogs and parts, and disks that survive their
/// nodes.
///
/// Everything that looks random comes from the seed, so equal seeds give equal traces (`trace()`).
/// Checked after every event: a request is answered once, and only while it is asked; the node that
/// had the event keeps its own limits (sim/bounds.hpp).
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenzro/compute/backend.hpp"

#include "sim/sim_node.hpp"

namespace tenzro::testing {

/// How the network treats one message (a request or a reply).
struct LinkOptions {
  Duration latency_min = std::chrono::microseconds(100);
  Duration latency_max = std::chrono::microseconds(900);
  /// Messages that QUIC has to repeat, in a thousand: they come `repeat_delay` later, in other
  /// order.
  std::uint64_t repeat_per_mille = 0;
  Duration repeat_delay = std::chrono::milliseconds(60);
  /// Calls whose connection breaks before the reply, in a thousand.
  std::uint64_t reset_per_mille = 0;
  /// What a caller waits for a peer that says nothing before its connection counts as dead.
  Duration idle_timeout = std::chrono::seconds(30);
};

class World final : public Effects {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::size_t nodes = 3;
    node::Options node;
    LinkOptions link;
    /// Of every node; 0: they repair nothing.
    std::uint64_t disk_bytes = 0;
    /// Per node: changes its options before it starts.
    std::function<void(std::size_t, node::Options&)> tune;
  };

  explicit World(const Options& options);
  ~World() override;

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  [[nodiscard]] SimNode& at(std::size_t index) { return *nodes_[index]; }

  // ---- time
  /// Works off one event; false where none is left.
  bool step();
  void run_for(Duration time);
  /// Until `is_done`, at most `time`; what `is_done` said last.
  bool run_until(const std::function<bool()>& is_done, Duration time);

  // ---- clients
  RequestId begin(std::size_t index, rpc::Call call);
  void cancel(std::size_t index, RequestId request);
  /// The answer of a request that has one; it is then forgotten.
  [[nodiscard]] std::optional<Result<rpc::Answer>> answer(std::size_t index, RequestId request);
  /// Asks and waits; an error where no answer came within `time`.
  Result<rpc::Answer> call(std::size_t index, rpc::Call call,
                           Duration time = std::chrono::seconds(120));

  // ---- faults
  void crash(std::size_t index);
  void restart(std::size_t index);

  /// Nothing passes from `from` to `to`, in that direction only.
  void cut(std::size_t from, std::size_t to) { cuts_.insert({from, to}); }

  /// Nothing passes between the two groups.
  void part(const std::set<std::size_t>& group);

  /// Messages from `from` to `to` wait, in that direction only, as behind a full buffer.
  void clog(std::size_t from, std::size_t to) { clogs_.insert({from, to}); }

  /// Cuts and clogs end; what waited arrives.
  void heal();

  /// Everything to and from the node takes this much longer.
  void slow_link(std::size_t index, Duration extra) { extra_latency_[index] = extra; }

  /// The process does nothing until it goes on, as under SIGSTOP.
  void stop(std::size_t index) { stopped_.insert(index); }

  void go_on(std::size_t index);

  LinkOptions& link() { return options_.link; }

  /// Sees every reply a node sends, and may change it.
  std::function<void(std::size_t from, wire::Protocol, std::vector<BufferRef>&)> tamper;

  // ---- observation
  [[nodiscard]] std::uint64_t trace() const { return trace_; }

  [[nodiscard]] std::uint64_t calls_sent(wire::Protocol protocol) const {
    const auto it = calls_sent_.find(protocol);
    return it == calls_sent_.end() ? 0 : it->second;
  }

  [[nodiscard]] std::uint64_t bytes_sent(std::size_t index) const { return bytes_sent_[index]; }

  // ---- Effects
  [[nodiscard]] Instant now() const override { return now_; }

  void after(std::size_t index, Duration delay, std::function<void()> event) override;
  void on_answer(std::size_t index, RequestId request, Result<rpc::Answer> answer) override;
  void on_peer_action(std::size_t index, node::Action action) override;

 private:
  struct Event {
    std::size_t index = 0;
    std::uint64_t life = 0;  ///< the process it is meant for
    std::function<void()> run;
  };

  /// A call on its way: who asked, who was asked, and the request at the other end.
  struct Transit {
    std::size_t caller = 0;
    PeerCallId call{};
    std::size_t callee = 0;
    wire::Protocol protocol = wire::Protocol::moe;
  };

  /// A message that waits; both processes must still be there when it goes on.
  struct Clogged {
    std::size_t from = 0;
    std::uint64_t from_life = 0;
    Event event;
  };

  void send(std::size_t index, node::SendCall& call);
  void cancel_call(std::size_t index, PeerCallId call);
  void send_reply(std::size_t index, node::SendReply& reply);
  void refuse(std::size_t index, PeerRequestId request);
  /// Gives the caller the result of its call, unless that has one.
  void end_call(const Transit& transit, const work::CallResult& result);
  void end_call_after(Duration delay, const Transit& transit, work::CallResult result);
  /// Takes a message along: `arrive` runs in the process of node `to`.
  void carry(std::size_t from, std::size_t to, std::function<void()> arrive);
  [[nodiscard]] std::optional<std::size_t> find(const work::PeerTarget& target) const;
  [[nodiscard]] bool passes(std::size_t from, std::size_t to) const;
  [[nodiscard]] Duration latency(std::size_t from, std::size_t to);
  void note(std::uint64_t what);
  /// A rule of the simulator was broken: that is the end of it.
  [[noreturn]] void broken(std::string_view rule) const;

  Options options_;
  Prng prng_;
  Result<catalog::Catalog> catalog_;
  std::unique_ptr<compute::Backend> backend_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<std::uint64_t> lives_;
  std::vector<std::uint64_t> bytes_sent_;
  Instant now_{std::chrono::seconds(1)};
  std::map<std::pair<Instant, std::uint64_t>, Event> queue_;
  std::uint64_t events_ = 0;
  std::map<PeerRequestId, Transit> transits_;
  std::map<std::pair<std::size_t, PeerCallId>, PeerRequestId> calls_;
  std::uint64_t last_peer_request_ = 0;
  std::map<wire::Protocol, std::uint64_t> calls_sent_;
  std::set<std::pair<std::size_t, std::size_t>> cuts_;
  std::set<std::pair<std::size_t, std::size_t>> clogs_;
  std::vector<Clogged> clogged_;
  std::map<std::size_t, Duration> extra_latency_;
  std::set<std::size_t> stopped_;
  std::map<std::size_t, std::vector<Event>> held_back_;
  std::set<std::pair<std::size_t, RequestId>> asked_;
  std::map<std::pair<std::size_t, RequestId>, Result<rpc::Answer>> answers_;
  std::uint64_t last_request_ = 0;
  std::uint64_t trace_ = 0;
};

}  // namespace tenzro::testing
