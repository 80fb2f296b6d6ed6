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

Error unknown(const std::string& job_id) {
  return {ErrorCode::invalid_params, "", "unknown prepare job: " + echo(job_id)};
}

}  // namespace

Jobs::Jobs(const Options& options, work::JobIds& ids, work::CallIds& calls,
           const catalog::Catalog& catalog, Prng& prng)
    : options_(options), ids_(ids), calls_(calls), catalog_(catalog), prng_(prng) {}

Jobs::~Jobs() = default;

std::unique_ptr<Job> Jobs::make_job(std::string id, rpc::PrepareExpertsCall call) const {
  const catalog::Model* model = catalog_.find(call.model);
  return std::make_unique<Job>(std::move(id), std::move(call),
                               JobContext{options_, model, ids_, calls_, prng_});
}

void Jobs::claim(Job* job, const Outbox& out, std::size_t from) {
  for (std::size_t i = from; i < out.size(); ++i) {
    if (const auto* run = std::get_if<Run>(&out[i])) owners_.emplace(run->id, job);
    if (const auto* store = std::get_if<Store>(&out[i])) owners_.emplace(store->id, job);
    if (const auto* load = std::get_if<LoadPrepared>(&out[i])) owners_.emplace(load->id, job);
    if (const auto* download = std::get_if<work::Download>(&out[i]))
      callers_.emplace(download->id, job);
    if (const auto* cancelled = std::get_if<work::CancelCall>(&out[i]))
      callers_.erase(cancelled->id);
  }
}

bool Jobs::is_full() const {
  const auto running =
      std::count_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->is_running(); });
  return static_cast<std::size_t>(running) >= options_.jobs_max;
}

Error Jobs::full() const {
  return {ErrorCode::busy, "",
          "busy: " + std::to_string(options_.jobs_max) + " prepare jobs are running, the maximum"};
}

void Jobs::on_history(Instant now, const std::vector<work::LoggedJob>& jobs, Outbox& out) {
  for (const work::LoggedJob& logged : jobs) {
    const auto record = read_job_record(logged.record);
    if (!record) {
      out.emplace_back(Store{ids_.next(), work::ForgetJob{logged.id}});
      continue;
    }
    std::unique_ptr<Job> job = make_job(logged.id, record->call);
    job->restore(*record, logged.parts);
    const bool goes_on = job->is_running();
    const bool has_room = !is_full();
    jobs_.push_back(std::move(job));
    const std::size_t mark = out.size();
    if (goes_on && has_room) jobs_.back()->resume(now, std::nullopt, out);
    if (goes_on && !has_room) jobs_.back()->give_up(now, full().detail + "; resume it", out);
    claim(jobs_.back().get(), out, mark);
  }
  forget_old(out);
}

void Jobs::start(Instant now, RequestId waiter, rpc::PrepareExpertsCall call, Outbox& out) {
  if (is_full()) {
    out.emplace_back(Started{waiter, fail(full())});
    return;
  }
  forget_old(out);
  jobs_.push_back(make_job(make_uuid(prng_), std::move(call)));
  Job* job = jobs_.back().get();
  const std::size_t mark = out.size();
  job->start(now, waiter, out);
  claim(job, out, mark);
}

void Jobs::resume(Instant now, RequestId waiter, const std::string& job_id, Outbox& out) {
  Job* job = find(job_id);
  const auto refuse = [&](Error error) {
    out.emplace_back(Started{waiter, fail(std::move(error))});
  };
  if (job == nullptr) return refuse(unknown(job_id));
  if (job->is_running() || job->is_completed()) {
    const std::string state = job->is_running() ? "running" : "completed";
    return refuse({ErrorCode::invalid_params, "",
                   "prepare job " + job->id() + " is " + state +
                       ": only one that failed or was cancelled is resumed"});
  }
  if (is_full()) return refuse(full());
  const std::size_t mark = out.size();
  job->resume(now, waiter, out);
  claim(job, out, mark);
}

void Jobs::forget(Job* job, Outbox& out) {
  if (job->is_known()) out.emplace_back(Store{ids_.next(), work::ForgetJob{job->id()}});
  std::erase_if(owners_, [job](const auto& owner) { return owner.second == job; });
  std::erase_if(callers_, [job](const auto& caller) { return caller.second == job; });
}

/// Refused starts at once, finished jobs beyond the history; never one that runs.
void Jobs::forget_old(Outbox& out) {
  std::size_t finished = 0;
  std::size_t parts = 0;
  for (auto it = jobs_.end(); it != jobs_.begin();) {
    --it;
    Job& job = **it;
    if (job.is_running()) continue;
    parts += job.parts();
    const bool fits =
        job.is_known() && ++finished <= options_.history_max && parts <= options_.history_parts_max;
    if (fits) continue;
    forget(&job, out);
    it = jobs_.erase(it);
  }
}

Job* Jobs::find(const std::string& job_id) const {
  const auto it = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) {
    return job->is_known() && job->id() == job_id;
  });
  return it == jobs_.end() ? nullptr : it->get();
}

Result<rpc::PrepareStatusAnswer> Jobs::status(Instant now, const std::string& job_id,
                                              bool is_summary) const {
  const Job* job = find(job_id);
  if (job == nullptr) return fail(unknown(job_id));
  return is_summary ? job->summary(now) : job->status(now);
}

std::vector<rpc::PrepareStatusAnswer> Jobs::list(Instant now) const {
  std::vector<rpc::PrepareStatusAnswer> all;
  for (const auto& job : jobs_) {
    if (job->is_known()) all.push_back(job->summary(now));
  }
  return all;
}

Result<bool> Jobs::cancel(Instant now, const std::string& job_id, Outbox& out) {
  Job* job = find(job_id);
  if (job == nullptr) return fail(unknown(job_id));
  const std::size_t mark = out.size();
  const bool was_running = job->cancel(now, out);
  claim(job, out, mark);
  return was_running;
}

void Jobs::on_job_done(Instant now, JobId id, const work::JobResult& result, Outbox& out) {
  const auto owner = owners_.extract(id);
  if (!owner) return;
  const std::size_t mark = out.size();
  owner.mapped()->on_job_done(now, id, result, out);
  claim(owner.mapped(), out, mark);
}

void Jobs::on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out) {
  const auto owner = owners_.extract(id);
  if (!owner) return;
  const std::size_t mark = out.size();
  owner.mapped()->on_store_done(now, id, result, out);
  claim(owner.mapped(), out, mark);
}

bool Jobs::on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded,
                         Outbox& out) {
  const auto owner = callers_.extract(call);
  if (!owner) return false;
  const std::size_t mark = out.size();
  owner.mapped()->on_downloaded(now, call, downloaded, out);
  claim(owner.mapped(), out, mark);
  return true;
}

void Jobs::on_loaded(Instant now, JobId id, const Status& status, Outbox& out) {
  const auto owner = owners_.extract(id);
  if (!owner) return;
  const std::size_t mark = out.size();
  owner.mapped()->on_loaded(now, id, status, out);
  claim(owner.mapped(), out, mark);
}

void Jobs::on_tick(Instant now, Outbox& out) {
  for (const auto& job : jobs_) {
    const std::size_t mark = out.size();
    job->on_tick(now, out);
    claim(job.get(), out, mark);
  }
}

std::optional<Instant> Jobs::next_deadline() const {
  std::optional<Instant> earliest;
  for (const auto& job : jobs_) {
    const auto deadline = job->next_deadline();
    if (deadline && (!earliest || *deadline < *earliest)) earliest = deadline;
  }
  return earliest;
}

}  // namespace tenzro::prepare
