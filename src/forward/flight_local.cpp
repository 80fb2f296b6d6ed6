#include <algorithm>

#include "tenzro/forward/flight.hpp"

namespace tenzro::forward {

void Flight::on_expert_ready(Instant now, ExpertIndex expert,
                             std::shared_ptr<const compute::ResidentExpert> resident,
                             const work::ExpertFacts& facts, Outbox& out) {
  const bool is_wanted = std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.expert == expert && part.state == PartState::local;
  });
  const bool is_known = std::any_of(ready_.begin(), ready_.end(),
                                    [&](const Ready& ready) { return ready.expert == expert; });
  if (phase_ != Phase::running || !is_wanted || is_known) return;
  // Checked here and not in the plan: a reload may have changed it since.
  if (facts.d_model != width_of(expert)) {
    finish(now,
           fail(ErrorCode::runtime, "",
                "moe forward: expert l" + std::to_string(request_.layer.layer) + "/e" +
                    std::to_string(expert) + " has width " + std::to_string(facts.d_model) +
                    ", its layer's gate gives it rows of " + std::to_string(width_of(expert))),
           out);
    return;
  }
  ready_.push_back({expert, std::move(resident)});
}

void Flight::on_expert_unavailable(Instant now, ExpertIndex expert, const Error& error,
                                   Outbox& out) {
  if (phase_ != Phase::running) return;
  std::vector<PartIndex> lost;
  for (PartIndex i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (part.expert != expert || part.state != PartState::local) continue;
    --part.live;
    part.last_error = holder_error({request_.layer.layer, expert}, error);
    lost.push_back(i);
  }
  if (lost.empty()) return;
  excluded_.insert(mesh_.self);
  place(now, std::move(lost), out);
}

void Flight::run_ready(Outbox& out) {
  std::vector<Ready> routed;
  std::vector<Ready> shared;
  std::vector<Ready> streamed;
  for (Ready& ready : ready_) {
    const bool is_streamed = ready.resident->is_streamed();
    (is_streamed                  ? streamed
     : reads_hidden(ready.expert) ? shared
                                  : routed)
        .push_back(std::move(ready));
  }
  ready_.clear();
  if (!routed.empty()) run(std::move(routed), out);
  if (!shared.empty()) run(std::move(shared), out);
  // Each by itself: those in memory neither wait for the disk nor fail with it.
  for (Ready& ready : streamed) run({std::move(ready)}, out);
}

void Flight::run(std::vector<Ready> ready, Outbox& out) {
  const ExpertIndex first = ready.front().expert;
  const std::uint32_t width = width_of(first);
  const BufferRef& input = reads_hidden(first) ? request_.hidden : expert_input_;
  work::RunExperts job{
      .profile = request_.profile, .round_to_q8 = is_q8_, .input = input, .width = width};
  std::vector<PartIndex> carried;
  for (Ready& one : ready) {
    work::RunExperts::Batch batch{one.expert, std::move(one.resident), {}};
    for (PartIndex i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (part.expert != one.expert || part.state != PartState::local) continue;
      part.state = PartState::running;
      batch.rows.insert(batch.rows.end(), part.rows.begin(), part.rows.end());
      carried.push_back(i);
    }
    job.batches.push_back(std::move(batch));
  }
  const JobId id = mesh_.jobs.next();
  local_jobs_.emplace(id, std::move(carried));
  out.emplace_back(Run{id, std::move(job)});
}

void Flight::on_local_done(Instant now, const std::vector<PartIndex>& parts,
                           const work::JobResult& result, Outbox& out) {
  std::set<ExpertIndex> experts;
  for (const PartIndex i : parts) {
    --parts_[i].live;
    experts.insert(parts_[i].expert);
  }
  for (const ExpertIndex expert : experts) out.emplace_back(Release{expert});
  if (!result) {
    excluded_.insert(mesh_.self);
    for (const PartIndex i : parts) parts_[i].last_error = result.error();
    place(now, parts, out);
    advance(out);
    return;
  }
  std::uint64_t pairs = 0;
  for (const auto& [index, values] :
       distribute(parts_, parts, std::get<work::ExpertsResult>(*result).outputs)) {
    pairs += parts_[index].rows.size();
    if (finish_part(index, values)) ++tally_.local;
  }
  out.emplace_back(Metered{pairs});
  advance(out);
}

bool Flight::finish_part(PartIndex index, const BufferRef& values) {
  Part& part = parts_[index];
  if (part.is_over()) return false;  // the other holder was first
  part.state = PartState::done;
  --open_parts_;
  outputs_.push_back({part.expert, part.rows, values});
  return true;
}

}  // namespace tenzro::forward
