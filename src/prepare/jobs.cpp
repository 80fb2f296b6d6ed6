#include "tenzro/prepare/jobs.hpp"

#include <algorithm>
#include <array>

#include "tenzro/base/bytes.hpp"

#include "job.hpp"

namespace tenzro::prepare {
namespace {

/// RFC 4122, version 4.
std::string make_uuid(Prng& prng) {
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(prng.below(256));
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0FU) | 0x40U);
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3FU) | 0x80U);
  std::string text = to_hex(bytes);
  for (const std::size_t at : {20U, 16U, 12U, 8U}) text.insert(at, "-");
  return text;
}

}  // namespace

Jobs::Jobs(const Options& options, work::JobIds& ids, const catalog::Catalog& catalog)
    : options_(options), ids_(ids), catalog_(catalog) {}

Jobs::~Jobs() = default;

void Jobs::claim(Job* job, const Outbox& out, std::size_t from) {
  for (std::size_t i = from; i < out.size(); ++i) {
    if (const auto* run = std::get_if<Run>(&out[i])) owners_.emplace(run->id, job);
    if (const auto* store = std::get_if<Store>(&out[i])) owners_.emplace(store->id, job);
  }
}

void Jobs::start(RequestId waiter, rpc::PrepareExpertsCall call, Prng& prng, Outbox& out) {
  const auto running =
      std::count_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->is_running(); });
  if (static_cast<std::size_t>(running) >= options_.jobs_max) {
    out.emplace_back(Started{waiter, fail(ErrorCode::busy, "",
                                          "busy: " + std::to_string(options_.jobs_max) +
                                              " prepare jobs are running, the maximum")});
    return;
  }
  forget_old();
  const catalog::Model* model = catalog_.find(call.model);
  jobs_.push_back(
      std::make_unique<Job>(make_uuid(prng), waiter, std::move(call), model, options_, ids_));
  Job* job = jobs_.back().get();
  const std::size_t mark = out.size();
  job->start(out);
  claim(job, out, mark);
}

/// Refused starts at once, finished jobs beyond the history; never one that runs.
void Jobs::forget_old() {
  std::size_t finished = 0;
  for (auto it = jobs_.end(); it != jobs_.begin();) {
    --it;
    const Job& job = **it;
    if (job.is_running()) continue;
    if (job.is_known() && ++finished <= options_.history_max) continue;
    std::erase_if(owners_, [&](const auto& owner) { return owner.second == &job; });
    it = jobs_.erase(it);
  }
}

Job* Jobs::find(const std::string& job_id) const {
  const auto it = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) {
    return job->is_known() && job->id() == job_id;
  });
  return it == jobs_.end() ? nullptr : it->get();
}

Result<rpc::PrepareStatusAnswer> Jobs::status(const std::string& job_id) const {
  const Job* job = find(job_id);
  if (job == nullptr)
    return fail(ErrorCode::invalid_params, "", "unknown prepare job: " + echo(job_id));
  return job->status();
}

std::vector<rpc::PrepareStatusAnswer> Jobs::list() const {
  std::vector<rpc::PrepareStatusAnswer> all;
  for (const auto& job : jobs_) {
    if (job->is_known()) all.push_back(job->status());
  }
  return all;
}

Result<bool> Jobs::cancel(const std::string& job_id) {
  Job* job = find(job_id);
  if (job == nullptr)
    return fail(ErrorCode::invalid_params, "", "unknown prepare job: " + echo(job_id));
  return job->cancel();
}

void Jobs::on_job_done(JobId id, const work::JobResult& result, Outbox& out) {
  const auto owner = owners_.extract(id);
  if (!owner) return;
  const std::size_t mark = out.size();
  owner.mapped()->on_job_done(id, result, out);
  claim(owner.mapped(), out, mark);
}

void Jobs::on_store_done(JobId id, const work::StoreResult& result, Outbox& out) {
  const auto owner = owners_.extract(id);
  if (!owner) return;
  const std::size_t mark = out.size();
  owner.mapped()->on_store_done(id, result, out);
  claim(owner.mapped(), out, mark);
}

}  // namespace tenzro::prepare
