#pragma once
/// \file
/// A flight without a network: its jobs and calls are collected, the test answers them in any
/// order.
///
/// Holder n has address and key {n}. An expert's output row for token t is expert · 1000 + t in
/// every column, so that what reaches the combine can be checked.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/forward/flight.hpp"

namespace tenzro::forward {

inline constexpr std::uint8_t kSelf = 200;

[[nodiscard]] ProviderAddress address(std::uint8_t number);

struct HolderOptions {
  bool is_warm = true;
  bool speaks_exec = true;
  bool is_http = false;
  bool has_http_too = false;
  std::uint8_t profiles = shards::kEveryProfile;
  std::optional<shards::WeightTypes> types;
};

class ScriptedMesh {
 public:
  struct Setup {
    std::uint32_t width = 4;
    std::uint32_t expert_width = 4;  ///< another one than `width`: a latent layer
    std::uint32_t experts = 8;
    bool has_shared = false;
    bool can_be_q8 = false;
    Limits limits;
  };

  /// A call on its way.
  struct Sent {
    PeerCallId id{};
    std::shared_ptr<const work::RemoteCall> call;
    Instant at;
    bool is_cancelled = false;
    bool is_over = false;
  };

  ScriptedMesh() : ScriptedMesh(Setup{}) {}

  explicit ScriptedMesh(const Setup& setup);

  void hold(std::uint8_t holder, const std::vector<ExpertIndex>& experts,
            const HolderOptions& options = {});
  /// Holder n measures that many microseconds a call of one row.
  void measure(std::uint8_t holder, Duration took);

  [[nodiscard]] Request request() const;
  /// Starts a flight whose gate chooses these experts, a list a token.
  void fly(Request request, const std::vector<std::vector<ExpertIndex>>& routing);
  void answer(std::size_t sent);
  /// The reply arrives, and its check fails with this error.
  void reject(std::size_t sent, ErrorCode code, const std::string& why = "why");
  /// These bytes are the reply.
  void reply(std::size_t sent, BufferRef bytes);
  /// The network has no reply.
  void lose(std::size_t sent, ErrorCode code = ErrorCode::io);
  /// Makes every acquired expert ready and runs it.
  void run_local();
  /// The same in parts: the jobs stand, and one of them ends, well or with an error.
  void start_local();
  void finish_local(std::size_t job, const std::optional<Error>& error = std::nullopt);

  /// This node runs them from disk.
  void stream(const std::set<ExpertIndex>& experts) { streamed_ = experts; }

  void fail_local(const Error& error);
  void advance(Duration by);
  /// Moves to the next deadline.
  void step();

  [[nodiscard]] const std::vector<Sent>& sent() const { return sent_; }

  /// Number of the holder of a call.
  [[nodiscard]] std::uint8_t holder_of(std::size_t sent) const;
  [[nodiscard]] std::vector<std::uint8_t> holders() const;

  [[nodiscard]] const std::optional<Result<ForwardOutcome>>& outcome() const { return outcome_; }

  /// Forwards that finished; one at most is allowed.
  [[nodiscard]] std::size_t finished() const { return finished_; }

  /// Every (expert, token) that reached the combine, with the value in its row. One that came twice
  /// is counted in `duplicates`.
  [[nodiscard]] const std::map<std::pair<ExpertIndex, std::uint32_t>, float>& combined() const {
    return combined_;
  }

  [[nodiscard]] std::size_t duplicates() const { return duplicates_; }

  [[nodiscard]] Flight& flight() { return *flight_; }

  [[nodiscard]] ledger::Standings& standings() { return standings_; }

  [[nodiscard]] shards::View& view() { return view_; }

  [[nodiscard]] Instant now() const { return now_; }

  [[nodiscard]] const std::vector<work::RunExperts>& local_runs() const { return local_runs_; }

  /// Gives the flight, again, the network's answer to a call.
  void answer_late(std::size_t sent);

 private:
  class HeldFacts final : public Facts {
   public:
    [[nodiscard]] const work::ExpertFacts* find(const ExpertKey& key) const override;
    std::map<ExpertIndex, work::ExpertFacts> held;
  };

  void take(Outbox actions);
  void take_run(Run& run);
  void take_combine(const work::Combine& job);
  void finish_verify(std::size_t sent, const work::JobResult& result);
  [[nodiscard]] work::VerifiedReply outputs_of(const work::RemoteCall& call) const;
  [[nodiscard]] BufferRef values_of(ExpertIndex expert, const std::vector<std::uint32_t>& rows,
                                    std::uint32_t width) const;

  Setup setup_;
  work::JobIds jobs_;
  work::CallIds calls_;
  shards::View view_{shards::Options{}};
  ledger::Standings standings_{ledger::Options{}};
  HeldFacts facts_;
  Prng prng_{5};
  Mesh mesh_;
  std::shared_ptr<work::Gate> gate_;
  std::unique_ptr<Flight> flight_;
  Instant now_{std::chrono::seconds(100)};
  routing::Routed routed_;
  std::shared_ptr<const work::RemoteCall> encoded_;
  std::optional<JobId> last_verify_;
  std::vector<Sent> sent_;
  std::vector<ExpertIndex> acquired_;
  std::set<ExpertIndex> streamed_;
  std::vector<std::pair<JobId, work::RunExperts>> local_jobs_;
  std::vector<work::RunExperts> local_runs_;
  std::map<std::pair<ExpertIndex, std::uint32_t>, float> combined_;
  std::size_t duplicates_ = 0;
  std::optional<Result<ForwardOutcome>> outcome_;
  std::size_t finished_ = 0;
};

}  // namespace tenzro::forward
