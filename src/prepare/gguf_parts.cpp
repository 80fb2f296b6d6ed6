#include "gguf_parts.hpp"

#include <algorithm>
#include <cstdio>

#include "tenzro/base/bytes.hpp"

namespace tenzro::prepare {
namespace {

constexpr std::string_view kFirstPart = "-00001-of-";
constexpr std::string_view kNumber = "split.no";
constexpr std::string_view kCount = "split.count";
constexpr std::string_view kTensors = "split.tensors.count";
constexpr std::uint64_t kPartsMax = 1024;

tl::unexpected<Error> refused(const std::string& file, const std::string& why) {
  return fail(ErrorCode::runtime, file, why);
}

/// Writers give these keys as u16 and as i32.
Result<std::optional<std::uint64_t>> number_of(const std::string& file,
                                               const work::ScannedGguf& scanned,
                                               std::string_view key) {
  const auto found = scanned.metadata.find(key);
  if (found == scanned.metadata.end()) return std::optional<std::uint64_t>();
  if (const auto* number = std::get_if<std::uint64_t>(&found->second))
    return std::optional(*number);
  const auto* whole = std::get_if<std::int64_t>(&found->second);
  if (whole != nullptr && *whole >= 0) return std::optional(static_cast<std::uint64_t>(*whole));
  return refused(file, std::string(key) + " is not a count");
}

std::string part_text(std::uint64_t part) {
  char number[16];
  std::snprintf(number, sizeof number, "%05u", static_cast<unsigned>(part));
  return number;
}

/// Error where the file does not say what its name does.
Status check_key(const std::string& file, const work::ScannedGguf& scanned, std::string_view key,
                 std::uint64_t wanted) {
  const auto said = number_of(file, scanned, key);
  if (!said) return fail(said.error());
  if (!*said) return refused(file, std::string(key) + " is missing");
  if (**said == wanted) return {};
  return refused(file, std::string(key) + " is " + std::to_string(**said) +
                           ", by its place it is " + std::to_string(wanted));
}

/// Names of the further files; error where the first one's is not that of a first part of `count`.
Result<std::vector<std::string>> further_parts(const std::string& file, std::uint64_t count) {
  std::vector<std::string> parts;
  if (count <= 1) return parts;
  const std::size_t at = file.rfind(kFirstPart);
  if (at == std::string::npos || count > kPartsMax) {
    return refused(file, "is one of " + std::to_string(count) + " files (" + std::string(kCount) +
                             ") and not named so (want ..." + std::string(kFirstPart) + "...)");
  }
  const std::string rest = file.substr(at + kFirstPart.size());
  if (!rest.starts_with(part_text(count) + ".")) {
    return refused(file, std::string(kCount) + " is " + std::to_string(count) +
                             ", and its name says another number of files");
  }
  for (std::uint64_t part = 2; part <= count; ++part)
    parts.push_back(file.substr(0, at) + "-" + part_text(part) + "-of-" + rest);
  return parts;
}

}  // namespace

Result<std::vector<std::string>> GgufParts::begin(const std::string& file,
                                                  const work::ScannedGguf& scanned) {
  *this = {};
  first_ = file;
  const auto number = number_of(file, scanned, kNumber);
  if (!number) return fail(number.error());
  if (number->value_or(0) > 0) return refused(file, "is a part of a split file and not its first");
  const auto count = number_of(file, scanned, kCount);
  if (!count) return fail(count.error());
  const auto tensors = number_of(file, scanned, kTensors);
  if (!tensors) return fail(tensors.error());
  tensors_wanted_ = *tensors;
  count_ = std::max<std::uint64_t>(1, count->value_or(1));
  auto parts = further_parts(file, count_);
  if (!parts) return parts;
  if (Status status = take(file, scanned); !status) return fail(status.error());
  return parts;
}

Status GgufParts::add(const std::string& file, const work::ScannedGguf& scanned) {
  if (Status status = check_key(file, scanned, kCount, count_); !status) return status;
  if (Status status = check_key(file, scanned, kNumber, seen_); !status) return status;
  return take(file, scanned);
}

Status GgufParts::take(const std::string& file, const work::ScannedGguf& scanned) {
  for (const auto& [tensor, info] : scanned.tensors) {
    const auto [known, is_new] = files_.emplace(tensor, file);
    if (!is_new)
      return refused(file, "tensor '" + echo(tensor) + "' is in '" + known->second + "' too");
  }
  ++seen_;
  if (!are_all_here() || !tensors_wanted_ || *tensors_wanted_ == files_.size()) return {};
  return refused(first_, std::string(kTensors) + " is " + std::to_string(*tensors_wanted_) +
                             ", and its " + std::to_string(count_) + " files hold " +
                             std::to_string(files_.size()));
}

Status GgufParts::check_layers(const Checkpoint& checkpoint) const {
  for (LayerIndex layer = checkpoint.dense_first; layer < checkpoint.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const auto starts = [&prefix](const auto& entry) { return entry.first.starts_with(prefix); };
    const auto first = files_.lower_bound(prefix);
    if (first == files_.end() || !starts(*first)) {
      return refused(first_, "layer " + std::to_string(layer) + " of its " + checkpoint.model_type +
                                 ".block_count " +
                                 std::to_string(checkpoint.layers + checkpoint.mtp_layers) +
                                 " is missing");
    }
    if (has(prefix + "ffn_gate_inp.weight")) continue;
    for (auto it = first; it != files_.end() && starts(*it); ++it) {
      if (it->first.find("_exps.") == std::string::npos) continue;
      return refused(it->second, "layer " + std::to_string(layer) + " has experts ('" +
                                     echo(it->first) + "') and no '" + prefix +
                                     "ffn_gate_inp.weight'");
    }
  }
  return {};
}

}  // namespace tenzro::prepare
