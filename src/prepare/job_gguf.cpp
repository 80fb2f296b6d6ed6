// The steps of a job over GGUF files.
#include <utility>

#include "job.hpp"

namespace tenzro::prepare {
namespace {

/// Enough for the header of most GGUF files, whose vocabulary is the bulk of it.
constexpr std::uint64_t kPrefixBytes = 8ULL << 20U;

/// A block without a router has no experts, whatever the metadata says. Files of DeepSeek V4 that
/// were made without its prediction layers name their count all the same.
void find_dense_layers(const GgufParts& parts, Checkpoint& checkpoint) {
  const std::string first_mtp = "blk." + std::to_string(checkpoint.layers) + ".";
  if (checkpoint.model_type == "deepseek4" && !parts.has(first_mtp + "nextn.eh_proj.weight"))
    checkpoint.layers += std::exchange(checkpoint.mtp_layers, 0);
  for (LayerIndex layer = 0; layer < checkpoint.layers + checkpoint.mtp_layers; ++layer) {
    if (!parts.has("blk." + std::to_string(layer) + ".ffn_gate_inp.weight"))
      checkpoint.dense_layers.insert(layer);
  }
}

}  // namespace

void Job::begin_gguf(Outbox& out) {
  gguf_located_.clear();
  gguf_parts_ = {};
  files_to_scan_ = {single_file_};
  read_gguf_prefix(kPrefixBytes, out);
}

/// The next file whose header is not known, or what follows them.
void Job::next_gguf(Outbox& out) {
  if (!files_to_scan_.empty()) return read_gguf_prefix(kPrefixBytes, out);
  if (checkpoint_.is_gguf) {
    find_dense_layers(gguf_parts_, checkpoint_);
    if (const Status status = gguf_parts_.check_layers(checkpoint_); !status)
      return refuse(status.error(), out);
    if (const Status status = choose_layers(checkpoint_); !status)
      return refuse(status.error(), out);
    gguf_parts_ = {};  // as large as gguf_located_, and of no more use
  }
  begin_index(out);
}

void Job::read_gguf_prefix(std::uint64_t bytes, Outbox& out) {
  ask({Purpose::gguf_prefix}, SourceRead{files_to_scan_.front(), 0, bytes, true}, out);
}

void Job::on_gguf_prefix(const work::StoreResult& result, Outbox& out) {
  if (!result) {
    Error error = result.error();
    if (!is_accepted_) error = {ErrorCode::runtime, "source", error.message()};
    return refuse(std::move(error), out);
  }
  const auto& read = std::get<work::ReadBytes>(*result);
  ask({Purpose::gguf_scan}, work::ScanGguf{read.bytes, read.file_bytes}, out);
}

void Job::on_gguf_scanned(const work::ScannedGguf& scanned, Outbox& out) {
  if (scanned.bytes_wanted > 0) return read_gguf_prefix(scanned.bytes_wanted, out);
  const std::string file = files_to_scan_.front();
  files_to_scan_.pop_front();
  for (const auto& [tensor, info] : scanned.tensors)
    gguf_located_.emplace(tensor, Located{file, info});
  if (checkpoint_.family == nullptr) return on_first_gguf(file, scanned, out);
  // What follows the parts is the imatrix.
  if (checkpoint_.is_gguf && !gguf_parts_.are_all_here()) {
    if (const Status status = gguf_parts_.add(file, scanned); !status)
      return refuse(status.error(), out);
  }
  next_gguf(out);
}

void Job::on_first_gguf(const std::string& file, const work::ScannedGguf& scanned, Outbox& out) {
  const auto parts = gguf_parts_.begin(file, scanned);
  if (!parts) return refuse(parts.error(), out);
  auto checkpoint = read_gguf_checkpoint(scanned.metadata);
  Status status = checkpoint ? Status() : Status(fail(checkpoint.error()));
  // The blocks of a split file are known when its other parts are.
  if (status && parts->empty()) {
    find_dense_layers(gguf_parts_, *checkpoint);
    status = gguf_parts_.check_layers(*checkpoint);
  }
  if (status) status = accept(*checkpoint);
  if (!status) return refuse(status.error(), out);
  files_to_scan_.assign(parts->begin(), parts->end());
  begin_accepted(std::move(*checkpoint), out);
}

}  // namespace tenzro::prepare
