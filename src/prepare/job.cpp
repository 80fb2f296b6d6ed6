#include "job.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/safetensors.hpp"
#include "tenzro/wire/uri.hpp"

namespace tenzro::prepare {
namespace {

constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::uint64_t kIndexBytesMax = 256ULL << 20U;
/// The eight length bytes and enough to recognise a page or a pointer file.
constexpr std::uint64_t kPrefixBytes = 256;
/// Enough for the header of most GGUF files, whose vocabulary is the bulk of it.
constexpr std::uint64_t kGgufPrefixBytes = 8ULL << 20U;

/// "file:///a/b" and "/a/b" -> "/a/b".
std::string strip_scheme(const std::string& source) {
  constexpr std::string_view kScheme = "file://";
  return source.starts_with(kScheme) ? source.substr(kScheme.size()) : source;
}

}  // namespace

Job::Job(std::string id, RequestId waiter, rpc::PrepareExpertsCall call,
         const catalog::Model* model, const Options& options, work::JobIds& ids)
    : id_(std::move(id)),
      waiter_(waiter),
      call_(std::move(call)),
      model_(model),
      options_(options),
      ids_(ids) {}

void Job::ask(Pending pending, work::StoreOp op, Outbox& out) {
  const JobId id = ids_.next();
  pending_.emplace(id, pending);
  out.emplace_back(Store{id, std::move(op)});
}

void Job::ask(Pending pending, work::Job job, Outbox& out) {
  const JobId id = ids_.next();
  pending_.emplace(id, pending);
  out.emplace_back(Run{id, std::move(job)});
}

void Job::start(Outbox& out) {
  if (!call_.source) {
    refuse(
        model_ == nullptr
            ? Error{ErrorCode::invalid_params, "", "unknown catalog model_id: " + echo(call_.model)}
            : Error{ErrorCode::runtime, "",
                    "no safetensors checkpoint source mapped for " + echo(call_.model) +
                        ": pass source, a local directory, a .safetensors file or a .gguf file"},
        out);
    return;
  }
  if (model_ != nullptr && !model_->is_moe()) {
    refuse({ErrorCode::invalid_params, "", echo(call_.model) + " is not a MoE catalog entry"}, out);
    return;
  }
  root_ = strip_scheme(*call_.source);
  if (root_.find("://") != std::string::npos || root_.empty()) {
    refuse({ErrorCode::invalid_params, "source",
            "must be a directory, a .safetensors or .gguf file, or file:// of these"},
           out);
    return;
  }
  const bool is_gguf = root_.ends_with(".gguf");
  if (is_gguf || root_.ends_with(".safetensors")) {
    const std::size_t slash = root_.find_last_of('/');
    single_file_ = slash == std::string::npos ? root_ : root_.substr(slash + 1);
    root_ = slash == std::string::npos ? "." : root_.substr(0, std::max<std::size_t>(slash, 1));
  }
  if (is_gguf) {
    checkpoint_.is_gguf = true;
    files_to_scan_.push_back(single_file_);
    next_file(out);
    return;
  }
  ask({Purpose::config}, work::ReadSource{root_, "config.json", 0, kConfigBytesMax, true}, out);
}

void Job::refuse(Error error, Outbox& out) {
  if (is_answered_) {
    finish(rpc::PrepareState::failed, error.message());
    return;
  }
  is_answered_ = true;
  was_refused_ = true;
  finish(rpc::PrepareState::failed, error.message());
  out.emplace_back(Started{waiter_, fail(std::move(error))});
}

void Job::finish(rpc::PrepareState state, std::optional<std::string> error) {
  state_ = state;
  error_ = std::move(error);
  pending_.clear();
  parts_.clear();
  gate_parts_ = {};
  located_.clear();
  files_.clear();
}

bool Job::cancel() {
  if (!is_running()) return false;
  finish(rpc::PrepareState::cancelled, "cancelled");
  return true;
}

rpc::PrepareStatusAnswer Job::status() const {
  rpc::PrepareStatusAnswer answer{.job_id = id_,
                                  .key = {call_.model, call_.layer},
                                  .state = state_,
                                  .error = error_,
                                  .total_experts = static_cast<std::uint32_t>(experts_.size()),
                                  .gate = gate_done_};
  for (const auto& [expert, blob] : done_) answer.experts.push_back(blob);
  return answer;
}

void Job::on_store_done(JobId id, const work::StoreResult& result, Outbox& out) {
  const auto pending = pending_.extract(id);
  if (!pending || !is_running()) return;
  on_read(pending.mapped(), result, out);
}

void Job::on_read(const Pending& pending, const work::StoreResult& result, Outbox& out) {
  switch (pending.purpose) {
    case Purpose::config:
      return on_config(result, out);
    case Purpose::index:
      return on_index(result, out);
    default:
      break;
  }
  if (!result) {
    refuse(result.error(), out);
    return;
  }
  switch (pending.purpose) {
    case Purpose::file_size:
    case Purpose::header_length:
    case Purpose::header:
    case Purpose::gguf_prefix:
      return on_header(pending, result, out);
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

void Job::on_job_done(JobId id, const work::JobResult& result, Outbox& out) {
  const auto node = pending_.extract(id);
  if (!node || !is_running()) return;
  const Pending pending = node.mapped();
  if (!result) {
    Error error = result.error();
    if (pending.purpose == Purpose::header_scan || pending.purpose == Purpose::gguf_scan)
      error.detail = files_to_scan_.front() + ": " + error.detail;
    refuse(std::move(error), out);
    return;
  }
  if (const auto* index = std::get_if<work::ScannedIndex>(&*result)) {
    on_index_scanned(*index, out);
  } else if (const auto* header = std::get_if<work::ScannedHeader>(&*result)) {
    on_header_scanned(*header, out);
  } else if (const auto* gguf = std::get_if<work::ScannedGguf>(&*result)) {
    on_gguf_scanned(*gguf, out);
  } else if (const auto* gate = std::get_if<work::BuiltGateBlob>(&*result)) {
    ask({Purpose::gate_publish}, work::PublishBlob{gate->blob}, out);
  } else if (const auto* expert = std::get_if<work::BuiltExpertBlob>(&*result)) {
    work::ExpertFacts facts{
        .gate_type = expert->gate_type, .up_type = expert->up_type, .down_type = expert->down_type};
    rpc::PreparedBlob& blob = parts_.at(pending.expert).blob;
    blob.quant = facts.coarsest_quant();
    blob.gate_type = expert->gate_type;
    blob.up_type = expert->up_type;
    blob.down_type = expert->down_type;
    ask({Purpose::expert_publish, pending.expert}, work::PublishBlob{expert->blob}, out);
  }
}

Status Job::accept(const Checkpoint& checkpoint) {
  if (model_ != nullptr) {
    if (auto status = catalog::check(*model_, checkpoint.observed()); !status) return status;
  }
  if (auto status = checkpoint.check_layer(call_.layer); !status) return status;
  const std::uint32_t ids = checkpoint.expert_ids();
  if (!call_.experts) {
    experts_.resize(ids);
    std::iota(experts_.begin(), experts_.end(), 0U);
    return {};
  }
  std::set<ExpertIndex> distinct;
  for (const ExpertIndex expert : *call_.experts) {
    if (expert < ids) {
      distinct.insert(expert);
      continue;
    }
    std::string text = "expert " + std::to_string(expert) + " out of range: " + echo(call_.model) +
                       " has " + std::to_string(checkpoint.num_experts) + " routed experts";
    if (checkpoint.shared_experts > 0) {
      text += " plus the fused shared expert at index " + std::to_string(checkpoint.num_experts);
    }
    return fail(ErrorCode::invalid_params, "", text);
  }
  experts_.assign(distinct.begin(), distinct.end());
  return {};
}

void Job::on_config(const work::StoreResult& result, Outbox& out) {
  if (!result) {
    refuse({ErrorCode::runtime, "source", result.error().message()}, out);
    return;
  }
  const BufferRef& bytes = std::get<work::ReadBytes>(*result).bytes;
  auto checkpoint = parse_checkpoint_config(bytes.text());
  if (!checkpoint) {
    refuse(checkpoint.error(), out);
    return;
  }
  if (auto status = accept(*checkpoint); !status) {
    refuse(status.error(), out);
    return;
  }
  checkpoint_ = std::move(*checkpoint);
  answer_started(out);
  if (!single_file_.empty()) {
    files_to_scan_.push_back(single_file_);
    next_file(out);
    return;
  }
  ask({Purpose::index}, work::ReadSource{root_, std::string(kIndexFile), 0, kIndexBytesMax, true},
      out);
}

rpc::PrepareStartedAnswer Job::started_answer() const {
  return {.job_id = id_,
          .key = {call_.model, call_.layer},
          .total_experts = static_cast<std::uint32_t>(experts_.size()),
          .include_gate = call_.include_gate,
          .quant_json = call_.quant ? call_.quant->echo_json : "null"};
}

void Job::answer_started(Outbox& out) {
  is_answered_ = true;
  Result<rpc::PrepareStartedAnswer> answer(started_answer());
  out.emplace_back(Started{waiter_, std::move(answer)});
}

void Job::on_index(const work::StoreResult& result, Outbox& out) {
  if (!result && result.error().code == ErrorCode::not_found) {
    single_file_ = kSingleFile;
    files_to_scan_.push_back(single_file_);
    next_file(out);
    return;
  }
  if (!result) {
    refuse(result.error(), out);
    return;
  }
  ask({Purpose::index_scan},
      work::ScanIndex{std::get<work::ReadBytes>(*result).bytes,
                      scan_prefixes(checkpoint_, call_.layer)},
      out);
}

void Job::on_index_scanned(const work::ScannedIndex& scanned, Outbox& out) {
  files_ = scanned.files;
  const auto wanted =
      wanted_tensors(checkpoint_, call_.layer, experts_, call_.include_gate,
                     [this](const std::string& tensor) { return files_.contains(tensor); });
  if (!wanted) {
    refuse(in_file(wanted.error()), out);
    return;
  }
  std::set<std::string> distinct;
  for (const std::string& tensor : *wanted) distinct.insert(files_.at(tensor));
  files_to_scan_.assign(distinct.begin(), distinct.end());
  next_file(out);
}

void Job::next_file(Outbox& out) {
  if (files_to_scan_.empty() && call_.imatrix && !is_scanning_imatrix_) {
    is_scanning_imatrix_ = true;
    files_to_scan_.push_back(*call_.imatrix);
  }
  if (files_to_scan_.empty()) {
    begin_reading(out);
    return;
  }
  ask({Purpose::file_size}, work::StatSource{root_, files_to_scan_.front()}, out);
}

void Job::on_header(const Pending& pending, const work::StoreResult& result, Outbox& out) {
  const std::string& file = files_to_scan_.front();
  if (pending.purpose == Purpose::file_size) {
    const auto& stat = std::get<work::SourceStat>(*result);
    if (!stat.exists || stat.is_directory) {
      refuse({ErrorCode::runtime, file, stat.exists ? "is a directory" : "is not there"}, out);
      return;
    }
    file_bytes_ = stat.size_bytes;
    if (checkpoint_.is_gguf || is_scanning_imatrix_) return read_gguf_prefix(kGgufPrefixBytes, out);
    ask({Purpose::header_length}, work::ReadSource{root_, file, 0, kPrefixBytes, true}, out);
    return;
  }
  const BufferRef& bytes = std::get<work::ReadBytes>(*result).bytes;
  if (pending.purpose == Purpose::gguf_prefix) {
    ask({Purpose::gguf_scan}, work::ScanGguf{bytes, file_bytes_, call_.layer}, out);
    return;
  }
  if (pending.purpose == Purpose::header) {
    ask({Purpose::header_scan},
        work::ScanHeader{bytes, file_bytes_, scan_prefixes(checkpoint_, call_.layer)}, out);
    return;
  }
  const auto length = tensor::safetensors_header_length(bytes.bytes(), file_bytes_);
  if (!length) {
    refuse({length.error().code, file, length.error().message()}, out);
    return;
  }
  ask({Purpose::header}, work::ReadSource{root_, file, sizeof(std::uint64_t), *length, false}, out);
}

void Job::on_header_scanned(const work::ScannedHeader& scanned, Outbox& out) {
  const std::string file = files_to_scan_.front();
  files_to_scan_.pop_front();
  for (const auto& [tensor, info] : scanned.tensors) {
    const auto it = files_.find(tensor);
    // A tensor that the index places elsewhere is not taken from here.
    if (single_file_.empty() && (it == files_.end() || it->second != file)) continue;
    located_.emplace(tensor, Located{file, info});
  }
  next_file(out);
}

}  // namespace tenzro::prepare
