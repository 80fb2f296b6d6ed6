#include "job.hpp"

#include <algorithm>
#include <utility>

#include "tenzro/base/bytes.hpp"

namespace tenzro::prepare {
namespace {

work::StoreResult to_store_result(const Result<SourceBytes>& bytes) {
  if (!bytes) return fail(bytes.error());
  return work::ReadBytes{.bytes = bytes->bytes, .file_bytes = bytes->file_bytes};
}

}  // namespace

Job::Job(std::string id, rpc::PrepareExpertsCall call, const JobContext& context)
    : id_(std::move(id)), call_(std::move(call)), context_(context), options_(context.options) {}

void Job::ask(Pending pending, SourceRead read, Outbox& out) {
  const ReadId id = reader_->read(now_, std::move(read), out);
  reads_.emplace(id, pending);
}

void Job::ask(Pending pending, work::StoreOp op, Outbox& out) {
  const JobId id = context_.ids.next();
  pending_.emplace(id, pending);
  out.emplace_back(Store{id, std::move(op)});
}

void Job::ask(Pending pending, work::Job job, Outbox& out) {
  const JobId id = context_.ids.next();
  pending_.emplace(id, pending);
  out.emplace_back(Run{id, std::move(job)});
}

void Job::start(Instant now, RequestId waiter, Outbox& out) {
  now_ = begun_ = now;
  waiter_ = waiter;
  begin(out);
  take_reads(out);
}

void Job::restore(const JobRecord& record, const std::vector<work::LoggedPart>& parts) {
  state_ = record.state;
  error_ = record.error;
  layers_ = record.layers;
  files_known_ = record.files;
  is_answered_ = true;
  is_accepted_ = !record.layers.empty();
  if (is_accepted_) experts_.resize(record.total_experts / record.layers.size());
  for (const work::LoggedPart& logged : parts) {
    const auto part = read_part(logged);
    // What is not there any more is made again, unless nobody asks for it.
    if (!part || (!logged.is_there && is_running())) continue;
    if (part->expert) {
      done_.emplace(Slot{part->blob.layer, *part->expert}, part->blob);
    } else {
      gates_done_.emplace(part->blob.layer, part->blob);
    }
  }
}

void Job::resume(Instant now, std::optional<RequestId> waiter, Outbox& out) {
  now_ = begun_ = now;
  state_ = rpc::PrepareState::running;
  error_.reset();
  reader_.reset();                         // finish() has kept what it knew
  if (parts() == 0) files_known_.clear();  // nothing is made of them yet
  earlier_bytes_ = earlier_layers_ = 0;
  log(out);
  if (waiter) answer_started(*waiter, out);
  begin(out);
  take_reads(out);
}

void Job::log(Outbox& out) {
  JobRecord record{.call = call_,
                   .state = state_,
                   .error = error_,
                   .layers = layers_,
                   .total_experts = static_cast<std::uint32_t>(experts_.size() * layers_.size()),
                   .files = reader_ ? reader_->versions() : files_known_};
  if (!layers_.empty()) record.call.layer = layers_.front();
  ask({Purpose::logged}, work::LogJob{id_, to_text(record)}, out);
}

void Job::refuse(Error error, Outbox& out) {
  if (is_answered_) {
    finish(rpc::PrepareState::failed, error.message(), out);
    return;
  }
  is_answered_ = true;
  was_refused_ = true;
  finish(rpc::PrepareState::failed, error.message(), out);
  out.emplace_back(Started{waiter_, fail(std::move(error))});
}

void Job::finish(rpc::PrepareState state, std::optional<std::string> error, Outbox& out) {
  state_ = state;
  error_ = std::move(error);
  ended_ = now_;
  if (reader_) {
    reader_->stop(out);
    files_known_ = reader_->versions();
  }
  pending_.clear();
  unchecked_.clear();
  reads_.clear();
  parts_.clear();
  gate_parts_ = {};
  gguf_parts_ = {};
  located_.clear();
  gguf_located_.clear();
  files_to_scan_.clear();
  shards_.reset();
  header_ = {};
  if (!was_refused_) log(out);
}

bool Job::cancel(Instant now, Outbox& out) {
  if (!is_running()) return false;
  now_ = now;
  if (!is_answered_) {
    refuse({ErrorCode::cancelled, "", "the job was cancelled before it began"}, out);
    return true;
  }
  finish(rpc::PrepareState::cancelled, "cancelled", out);
  return true;
}

void Job::give_up(Instant now, const std::string& why, Outbox& out) {
  now_ = now;
  finish(rpc::PrepareState::failed, why, out);
}

void Job::on_store_done(Instant now, JobId id, const work::StoreResult& result, Outbox& out) {
  now_ = now;
  if (const auto pending = pending_.extract(id)) {
    if (is_running() && pending.mapped().purpose != Purpose::logged)
      on_read(pending.mapped(), result, out);
    // What is not written down would be lost at the next start, and with it where to go on.
    if (is_running() && pending.mapped().purpose == Purpose::logged && !result)
      refuse({result.error().code, "the job's log", result.error().message()}, out);
  } else if (reader_) {
    reader_->on_store_done(id, result);
  }
  take_reads(out);
}

void Job::on_downloaded(Instant now, PeerCallId call, const work::Downloaded& downloaded,
                        Outbox& out) {
  now_ = now;
  if (reader_) reader_->on_downloaded(now, call, downloaded, out);
  take_reads(out);
  answer_in_time(out);
}

void Job::on_tick(Instant now, Outbox& out) {
  if (!is_running() || !reader_) return;
  now_ = now;
  reader_->on_tick(now, out);
  take_reads(out);
  answer_in_time(out);
}

std::optional<Instant> Job::next_deadline() const {
  if (!is_running() || !reader_) return std::nullopt;
  const auto deadline = reader_->next_deadline();
  if (is_answered_) return deadline;
  const Instant answer_by = begun_ + kAnswerWithin;
  return deadline ? std::min(*deadline, answer_by) : answer_by;
}

/// Ends: each round brings reads that were asked for, and what asks for more is never done at once
/// but where a file has nothing at all to give.
void Job::take_reads(Outbox& out) {
  while (is_running() && reader_) {
    std::vector<ReadDone> done = reader_->take_done();
    if (done.empty()) return;
    for (ReadDone& read : done) {
      const auto pending = reads_.extract(read.id);
      if (!pending || !is_running()) continue;
      on_read(pending.mapped(), to_store_result(read.bytes), out);
    }
  }
}

void Job::on_read(const Pending& pending, const work::StoreResult& result, Outbox& out) {
  switch (pending.purpose) {
    case Purpose::config:
      return on_config(result, out);
    case Purpose::index:
      return on_index(result, out);
    case Purpose::gguf_prefix:
      return on_gguf_prefix(result, out);
    case Purpose::there:
      return on_there(pending, result, out);
    default:
      break;
  }
  if (!result) {
    refuse(while_reading(pending, result.error()), out);
    return;
  }
  switch (pending.purpose) {
    case Purpose::header_length:
    case Purpose::header:
      return on_header(pending, result, out);
    case Purpose::space:
      return on_space(out);
    case Purpose::gate_part:
    case Purpose::expert_part:
      return on_part(pending, std::get<work::ReadBytes>(*result), out);
    case Purpose::gate_publish:
    case Purpose::expert_publish:
      return on_published(pending, std::get<work::Published>(*result), out);
    default:
      break;
  }
}

void Job::on_job_done(Instant now, JobId id, const work::JobResult& result, Outbox& out) {
  now_ = now;
  const auto node = pending_.extract(id);
  if (!node || !is_running()) return;
  const Pending pending = node.mapped();
  if (!result) {
    Error error = result.error();
    if (pending.purpose == Purpose::header_scan || pending.purpose == Purpose::gguf_scan)
      error.detail = files_to_scan_.front() + ": " + error.detail;
    refuse(while_building(pending, std::move(error)), out);
    return;
  }
  if (const auto* index = std::get_if<work::ScannedIndex>(&*result)) {
    on_index_scanned(*index, out);
  } else if (const auto* header = std::get_if<work::ScannedHeader>(&*result)) {
    on_header_scanned(*header, out);
  } else if (const auto* gguf = std::get_if<work::ScannedGguf>(&*result)) {
    on_gguf_scanned(*gguf, out);
  } else if (const auto* gate = std::get_if<work::BuiltGateBlob>(&*result)) {
    gate_parts_.bytes = gate->blob;
    gate_parts_.blob.layer = call_.layer;
    ask({Purpose::gate_publish},
        work::PublishBlob{gate->blob, work::JobPart{id_, part_name(call_.layer, std::nullopt),
                                                    to_text(gate_parts_.blob)}},
        out);
  } else if (const auto* expert = std::get_if<work::BuiltExpertBlob>(&*result)) {
    on_built(pending, *expert, out);
  }
  take_reads(out);
}

}  // namespace tenzro::prepare
