// The steps of a job over GGUF files.
#include <cstdio>
#include <utility>

#include "job.hpp"

namespace tenzro::prepare {
namespace {

constexpr std::string_view kFirstPart = "-00001-of-";
constexpr std::uint64_t kPartsMax = 1024;
/// Enough for the header of most GGUF files, whose vocabulary is the bulk of it.
constexpr std::uint64_t kPrefixBytes = 8ULL << 20U;

/// Names of the further files of a split one; empty where it is whole. Nothing where its name is
/// not that of a first part.
std::optional<std::vector<std::string>> further_parts(const std::string& file,
                                                      std::uint64_t count) {
  std::vector<std::string> parts;
  if (count <= 1) return parts;
  const std::size_t at = file.rfind(kFirstPart);
  if (at == std::string::npos || count > kPartsMax) return std::nullopt;
  for (std::uint64_t part = 2; part <= count; ++part) {
    char number[16];
    std::snprintf(number, sizeof number, "-%05u-of-", static_cast<unsigned>(part));
    parts.push_back(file.substr(0, at) + number + file.substr(at + kFirstPart.size()));
  }
  return parts;
}

/// Of the keys that say which part of what a file is.
std::uint64_t split_number(const work::ScannedGguf& scanned, std::string_view key,
                           std::uint64_t absent) {
  const auto found = scanned.metadata.find(key);
  if (found == scanned.metadata.end()) return absent;
  const auto* number = std::get_if<std::uint64_t>(&found->second);
  return number == nullptr ? absent : *number;
}

/// A block without a router has no experts, whatever the metadata says. Files of DeepSeek V4 that
/// were made without its prediction layers name their count all the same.
void find_dense_layers(const HasTensor& has, Checkpoint& checkpoint) {
  const std::string first_mtp = "blk." + std::to_string(checkpoint.layers) + ".";
  if (checkpoint.model_type == "deepseek4" && !has(first_mtp + "nextn.eh_proj.weight"))
    checkpoint.layers += std::exchange(checkpoint.mtp_layers, 0);
  for (LayerIndex layer = 0; layer < checkpoint.layers + checkpoint.mtp_layers; ++layer) {
    if (!has("blk." + std::to_string(layer) + ".ffn_gate_inp.weight"))
      checkpoint.dense_layers.insert(layer);
  }
}

}  // namespace

void Job::begin_gguf(Outbox& out) {
  gguf_located_.clear();
  files_to_scan_ = {single_file_};
  read_gguf_prefix(kPrefixBytes, out);
}

/// The next file whose header is not known, or what follows them.
void Job::next_gguf(Outbox& out) {
  if (!files_to_scan_.empty()) return read_gguf_prefix(kPrefixBytes, out);
  if (checkpoint_.is_gguf) {
    find_dense_layers([this](const std::string& name) { return gguf_located_.contains(name); },
                      checkpoint_);
    if (const Status status = choose_layers(checkpoint_); !status)
      return refuse(status.error(), out);
  }
  begin_index(out);
}

void Job::read_gguf_prefix(std::uint64_t bytes, Outbox& out) {
  ask({Purpose::gguf_prefix}, SourceRead{files_to_scan_.front(), 0, bytes, true}, out);
}

void Job::on_gguf_prefix(const work::StoreResult& result, Outbox& out) {
  if (!result) {
    Error error = result.error();
    if (!is_answered_) error = {ErrorCode::runtime, "source", error.message()};
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
  next_gguf(out);
}

void Job::on_first_gguf(const std::string& file, const work::ScannedGguf& scanned, Outbox& out) {
  const std::uint64_t count = split_number(scanned, "split.count", 1);
  const auto parts = further_parts(file, count);
  if (split_number(scanned, "split.no", 0) > 0)
    return refuse({ErrorCode::runtime, file, "is a part of a split file and not its first"}, out);
  if (!parts) {
    return refuse({ErrorCode::runtime, file,
                   "is one of " + std::to_string(count) + " files and not named so (want ..." +
                       std::string(kFirstPart) + "...)"},
                  out);
  }
  auto checkpoint = read_gguf_checkpoint(scanned.metadata);
  // The blocks of a split file are known when its other parts are.
  if (checkpoint && parts->empty()) {
    find_dense_layers([this](const std::string& name) { return gguf_located_.contains(name); },
                      *checkpoint);
  }
  const Status status = checkpoint ? accept(*checkpoint) : Status(fail(checkpoint.error()));
  if (!status) return refuse(status.error(), out);
  files_to_scan_.assign(parts->begin(), parts->end());
  begin_accepted(std::move(*checkpoint), out);
}

}  // namespace tenzro::prepare
