// Job: what is told of it.
#include <algorithm>

#include "job.hpp"

namespace tenzro::prepare {
namespace {

std::uint64_t milliseconds(Duration duration) {
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, whole));
}

}  // namespace

/// After the one at work, of those that lack something.
std::size_t Job::later_layers() const {
  const auto next = layers_.begin() + static_cast<std::ptrdiff_t>(next_layer_) + 1;
  return static_cast<std::size_t>(std::count_if(
      next, layers_.end(), [this](LayerIndex layer) { return !is_layer_done(layer); }));
}

rpc::PrepareProgress Job::progress(Instant now) const {
  rpc::PrepareProgress progress;
  for (const auto& [slot, blob] : done_) progress.bytes_published += blob.bytes;
  for (const auto& [layer, blob] : gates_done_) progress.bytes_published += blob.bytes;
  progress.elapsed_ms = milliseconds((is_running() ? now : ended_) - begun_);
  if (reader_) progress.bytes_read = reader_->bytes_read();
  const auto until = is_running() && reader_ ? reader_->rate_limited_until(now) : std::nullopt;
  if (until) progress.rate_limit_ms = milliseconds(*until - now);
  const std::uint64_t known = earlier_bytes_ + layer_bytes_;
  const std::uint64_t done = known - std::min(known, bytes_left_of_layer_);
  const std::size_t known_layers = earlier_layers_ + (layer_bytes_ > 0 ? 1 : 0);
  if (known_layers == 0) return progress;
  std::uint64_t later = 0;
  if (next_layer_ + 1 < layers_.size()) later = layers_.size() - next_layer_ - 1;
  const std::uint64_t left = known - done + later * (known / known_layers);
  // What has been read besides is headers, and what came twice.
  progress.bytes_wanted = std::max(progress.bytes_read, done) + left;
  if (!is_running()) return progress;
  if (done > 0) {
    progress.left_ms =
        static_cast<std::uint64_t>(static_cast<double>(progress.elapsed_ms) *
                                   static_cast<double>(left) / static_cast<double>(done));
  }
  return progress;
}

rpc::PrepareStartedAnswer Job::started_answer() const {
  const bool is_list = !call_.layers.empty() || call_.has_all_layers;
  return {.job_id = id_,
          .key = {call_.model, layers_.empty() ? call_.layer : layers_.front()},
          .total_experts = static_cast<std::uint32_t>(experts_.size() * layers_.size()),
          .include_gate = call_.include_gate,
          .state = shown_state(),
          .quant_json = call_.quant ? call_.quant->echo_json : "null",
          .layers = is_list ? layers_ : std::vector<LayerIndex>()};
}

rpc::PrepareState Job::shown_state() const {
  return is_running() && !is_accepted_ ? rpc::PrepareState::waiting : state_;
}

void Job::answer_in_time(Outbox& out) {
  if (is_answered_ || !is_running() || !reader_) return;
  if (now_ < begun_ + kAnswerWithin && !reader_->rate_limited_until(now_)) return;
  is_answered_ = true;
  answer_started(waiter_, out);
  log(out);
}

void Job::answer_started(RequestId waiter, Outbox& out) const {
  Started started{waiter, fail(ErrorCode::internal, "", "")};
  started.answer = started_answer();
  out.emplace_back(std::move(started));
}

rpc::PrepareStatusAnswer Job::summary(Instant now) const {
  const bool is_list = !call_.layers.empty() || call_.has_all_layers;
  rpc::PrepareStatusAnswer answer{
      .job_id = id_,
      .key = {call_.model, layers_.empty() ? call_.layer : layers_.front()},
      .state = shown_state(),
      .error = error_,
      .total_experts = static_cast<std::uint32_t>(experts_.size() * layers_.size()),
      .layers = is_list ? layers_ : std::vector<LayerIndex>(),
      .progress = progress(now),
      .completed_experts = static_cast<std::uint32_t>(done_.size())};
  if (reader_) {
    answer.source = reader_->address().root;
  } else {
    answer.source = call_.source.value_or("");
  }
  return answer;
}

rpc::PrepareStatusAnswer Job::status(Instant now) const {
  rpc::PrepareStatusAnswer answer = summary(now);
  answer.completed_experts.reset();
  for (const auto& [slot, blob] : done_) answer.experts.push_back(blob);
  for (const auto& [layer, blob] : gates_done_) answer.gates.push_back(blob);
  if (answer.layers.empty() && !answer.gates.empty()) answer.gate = answer.gates.front();
  return answer;
}

}  // namespace tenzro::prepare
