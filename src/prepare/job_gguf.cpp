// The steps of a job over GGUF files.
#include <cstdio>

#include "job.hpp"

namespace tenzro::prepare {
namespace {

constexpr std::string_view kFirstPart = "-00001-of-";
constexpr std::uint64_t kPartsMax = 1024;

/// Names of the further files of a split one; empty where it is whole. Nothing where the name does
/// not say which parts there are.
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

std::uint64_t part_count(const work::ScannedGguf& scanned) {
  const auto found = scanned.metadata.find("split.count");
  if (found == scanned.metadata.end()) return 1;
  const auto* count = std::get_if<std::uint64_t>(&found->second);
  return count == nullptr ? 1 : *count;
}

}  // namespace

void Job::read_gguf_prefix(std::uint64_t bytes, Outbox& out) {
  ask({Purpose::gguf_prefix}, work::ReadSource{root_, files_to_scan_.front(), 0, bytes, true}, out);
}

void Job::on_gguf_scanned(const work::ScannedGguf& scanned, Outbox& out) {
  if (scanned.bytes_wanted > 0) return read_gguf_prefix(scanned.bytes_wanted, out);
  if (is_scanning_imatrix_) return on_imatrix_scanned(scanned, out);
  const std::string file = files_to_scan_.front();
  files_to_scan_.pop_front();
  if (!is_answered_) {
    auto checkpoint = read_gguf_checkpoint(scanned.metadata);
    Status status = checkpoint ? accept(*checkpoint) : Status(tl::unexpect, checkpoint.error());
    if (!status) return refuse(status.error(), out);
    const auto parts = further_parts(file, part_count(scanned));
    if (!parts) {
      return refuse({ErrorCode::runtime, file, "is a part of a split file and not its first"}, out);
    }
    checkpoint_ = std::move(*checkpoint);
    files_to_scan_.insert(files_to_scan_.end(), parts->begin(), parts->end());
    answer_started(out);
  }
  for (const auto& [tensor, info] : scanned.tensors) located_.emplace(tensor, Located{file, info});
  next_file(out);
}

void Job::on_imatrix_scanned(const work::ScannedGguf& scanned, Outbox& out) {
  const std::string file = files_to_scan_.front();
  files_to_scan_.pop_front();
  for (const auto& [tensor, info] : scanned.tensors) located_.emplace(tensor, Located{file, info});
  next_file(out);
}

}  // namespace tenzro::prepare
