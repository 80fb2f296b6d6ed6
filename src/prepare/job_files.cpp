// Job: where the checkpoint is, and what its config, index and headers say.
#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/foreign_file.hpp"
#include "tenzro/tensor/safetensors.hpp"

#include "job.hpp"

namespace tenzro::prepare {
namespace {

constexpr std::string_view kConfigFile = "config.json";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::uint64_t kIndexBytesMax = 64ULL << 20U;
/// The eight length bytes and enough to recognise a page or a pointer file.
constexpr std::uint64_t kPrefixBytes = 256;

std::string too_large(const work::ReadBytes& read, std::uint64_t bytes_max) {
  return "has " + std::to_string(read.file_bytes) + " bytes, at most " + std::to_string(bytes_max) +
         " are read";
}

}  // namespace

Result<SourceAddress> Job::find_source() const {
  const catalog::Model* model = context_.model;
  const SourceOptions& source = options_.source;
  const PlainHttp rule = source.plain_http ? PlainHttp::anywhere : PlainHttp::loopback_only;
  if (call_.source) return SourceAddress::parse(*call_.source, rule);
  if (model == nullptr) {
    return fail(ErrorCode::invalid_params, "", "unknown catalog model_id: " + echo(call_.model));
  }
  if (source.hub_url.empty() || model->repo.empty()) {
    return fail(
        ErrorCode::runtime, "",
        "no safetensors checkpoint source mapped for " + echo(call_.model) +
            ": pass source, a local directory, a .safetensors or .gguf file or an https:// base");
  }
  const bool has_slash = source.hub_url.ends_with('/');
  return SourceAddress::parse(
      source.hub_url + (has_slash ? "" : "/") + model->repo + "/resolve/main", rule);
}

void Job::begin(Outbox& out) {
  auto address = find_source();
  const bool is_unknown = !call_.source && context_.model == nullptr;
  if (!is_unknown && context_.model != nullptr && !context_.model->is_moe()) {
    refuse({ErrorCode::invalid_params, "", echo(call_.model) + " is not a MoE catalog entry"}, out);
    return;
  }
  if (!address) {
    refuse(address.error(), out);
    return;
  }
  single_file_ = address->single_file;
  reader_.emplace(std::move(*address), options_.source, context_.ids, context_.calls,
                  context_.prng);
  reader_->expect(std::move(files_known_));
  files_known_.clear();
  checkpoint_ = {};
  if (single_file_.ends_with(".gguf")) return begin_gguf(out);
  ask({Purpose::config}, SourceRead{std::string(kConfigFile), 0, kConfigBytesMax, true}, out);
}

Status Job::choose_layers(const Checkpoint& checkpoint) {
  std::vector<LayerIndex> layers = call_.layers;
  if (layers.empty() && !call_.has_all_layers) layers.push_back(call_.layer);
  if (call_.has_all_layers) {
    for (LayerIndex layer = 0; layer < checkpoint.layers; ++layer) {
      if (checkpoint.check_layer(layer)) layers.push_back(layer);
    }
    if (layers.empty())
      return fail(ErrorCode::invalid_params, "layer", "no layer of this checkpoint has experts");
  }
  for (const LayerIndex layer : layers) {
    if (Status status = checkpoint.check_layer(layer); !status) return status;
  }
  layers_ = std::move(layers);
  return {};
}

Status Job::choose_experts(const Checkpoint& checkpoint) {
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

Status Job::accept(const Checkpoint& checkpoint) {
  if (context_.model != nullptr) {
    if (auto status = catalog::check(*context_.model, checkpoint.observed()); !status)
      return status;
  }
  if (auto status = choose_layers(checkpoint); !status) return status;
  return choose_experts(checkpoint);
}

void Job::on_config(const work::StoreResult& result, Outbox& out) {
  if (!result) {
    refuse({ErrorCode::runtime, "source", result.error().message()}, out);
    return;
  }
  const auto& read = std::get<work::ReadBytes>(*result);
  if (const auto foreign = tensor::foreign_file(read.bytes.text())) {
    refuse({ErrorCode::runtime, std::string(kConfigFile), std::string(*foreign)}, out);
    return;
  }
  if (read.file_bytes > kConfigBytesMax) {
    refuse({ErrorCode::runtime, std::string(kConfigFile), too_large(read, kConfigBytesMax)}, out);
    return;
  }
  auto checkpoint = parse_checkpoint_config(read.bytes.text());
  if (!checkpoint) {
    refuse(checkpoint.error(), out);
    return;
  }
  if (auto status = accept(*checkpoint); !status) {
    refuse(status.error(), out);
    return;
  }
  begin_accepted(std::move(*checkpoint), out);
}

void Job::begin_accepted(Checkpoint checkpoint, Outbox& out) {
  checkpoint_ = std::move(checkpoint);
  if (call_.imatrix) files_to_scan_.push_back(*call_.imatrix);
  if (!is_accepted_) {
    is_accepted_ = true;
    if (!std::exchange(is_answered_, true)) answer_started(waiter_, out);
    log(out);
  }
  check_published(out);
}

void Job::begin_index(Outbox& out) {
  if (!single_file_.empty()) return begin_layers(out);
  ask({Purpose::index}, SourceRead{std::string(kIndexFile), 0, kIndexBytesMax, true}, out);
}

void Job::on_index(const work::StoreResult& result, Outbox& out) {
  if (!result && result.error().code == ErrorCode::not_found) {
    single_file_ = kSingleFile;
    return begin_layers(out);
  }
  if (!result) {
    refuse(result.error(), out);
    return;
  }
  const auto& read = std::get<work::ReadBytes>(*result);
  if (read.file_bytes > kIndexBytesMax) {
    refuse({ErrorCode::runtime, std::string(kIndexFile), too_large(read, kIndexBytesMax)}, out);
    return;
  }
  std::vector<std::string> prefixes;
  for (const LayerIndex layer : layers_) {
    for (std::string& prefix : scan_prefixes(checkpoint_, layer))
      prefixes.push_back(std::move(prefix));
  }
  ask({Purpose::index_scan}, work::ScanIndex{read.bytes, std::move(prefixes)}, out);
}

void Job::on_index_scanned(const work::ScannedIndex& scanned, Outbox& out) {
  shards_ = scanned.shards;
  begin_layers(out);
}

void Job::begin_layers(Outbox& out) {
  next_layer_ = 0;
  next_layer(out);
}

bool Job::is_layer_done(LayerIndex layer) const {
  if (call_.include_gate && !gates_done_.contains(layer)) return false;
  return std::all_of(experts_.begin(), experts_.end(), [&](ExpertIndex expert) {
    return done_.contains({layer, expert});
  });
}

/// The next layer that lacks something, or the end.
void Job::next_layer(Outbox& out) {
  while (next_layer_ < layers_.size() && is_layer_done(layers_[next_layer_])) ++next_layer_;
  if (next_layer_ == layers_.size()) {
    finish(rpc::PrepareState::completed, std::nullopt, out);
    return;
  }
  call_.layer = layers_[next_layer_];
  next_ = 0;
  if (checkpoint_.is_gguf) return begin_reading(out);
  located_.clear();
  files_to_scan_.clear();
  if (single_file_.empty()) return find_files(out);
  files_to_scan_.push_back(single_file_);
  next_file(out);
}

/// Of the layer at work.
void Job::find_files(Outbox& out) {
  const auto wanted =
      wanted_tensors(checkpoint_, call_.layer, experts_, call_.include_gate,
                     [this](const std::string& tensor) { return shards_->contains(tensor); });
  if (!wanted) {
    refuse(in_file(wanted.error()), out);
    return;
  }
  std::set<std::string> distinct;
  for (const std::string& tensor : *wanted) distinct.insert(*shards_->file_of(tensor));
  files_to_scan_.assign(distinct.begin(), distinct.end());
  next_file(out);
}

void Job::next_file(Outbox& out) {
  if (files_to_scan_.empty()) {
    begin_reading(out);
    return;
  }
  const std::string& file = files_to_scan_.front();
  if (header_.file == file && !header_.json.empty()) return scan_header_of_file(out);
  ask({Purpose::header_length}, SourceRead{file, 0, kPrefixBytes, true}, out);
}

void Job::scan_header_of_file(Outbox& out) {
  ask({Purpose::header_scan},
      work::ScanHeader{header_.json, header_.file_bytes, scan_prefixes(checkpoint_, call_.layer)},
      out);
}

void Job::on_header(const Pending& pending, const work::StoreResult& result, Outbox& out) {
  const std::string& file = files_to_scan_.front();
  const auto& read = std::get<work::ReadBytes>(*result);
  if (pending.purpose == Purpose::header) {
    header_.json = read.bytes;
    return scan_header_of_file(out);
  }
  header_ = {.file = file, .file_bytes = read.file_bytes, .json = {}};
  const auto length = tensor::safetensors_header_length(read.bytes.bytes(), header_.file_bytes);
  if (!length) {
    refuse({length.error().code, file, length.error().message()}, out);
    return;
  }
  ask({Purpose::header}, SourceRead{file, sizeof(std::uint64_t), *length, false}, out);
}

void Job::on_header_scanned(const work::ScannedHeader& scanned, Outbox& out) {
  const std::string file = files_to_scan_.front();
  files_to_scan_.pop_front();
  for (const auto& [tensor, info] : scanned.tensors) {
    // A tensor that the index places elsewhere is not taken from here.
    const std::string* placed = single_file_.empty() ? shards_->file_of(tensor) : &file;
    if (placed == nullptr || *placed != file) continue;
    located_.emplace(tensor, Located{file, info});
  }
  next_file(out);
}

}  // namespace tenzro::prepare
