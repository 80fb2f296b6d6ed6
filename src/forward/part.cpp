#include "tenzro/forward/part.hpp"

#include <algorithm>
#include <string>

#include "tenzro/wire/protocol.hpp"

namespace tenzro::forward {
namespace {

// What a message holds beside its rows, generously: field names, model id, receipt and signature.
constexpr std::size_t kMessageReserve = 64 << 10;
constexpr std::size_t kBytesPerExpert = 1 << 10;
/// A token index as text, or as an integer of the exec header on both ways.
constexpr std::size_t kBytesPerIndex = 12;
// What one call asks of its holder at most, however narrow the rows.
constexpr std::size_t kRowsPerCallMax = 1 << 15;
constexpr std::size_t kExpertsPerCallMax = 1024;

std::size_t row_bytes(std::uint32_t width) {
  return std::size_t{width} * sizeof(float);
}

}  // namespace

std::size_t rows_in_part_max(std::uint32_t width) {
  // tenzro/moe is the narrowest: base64 text in a frame.
  const std::size_t bytes = wire::kMoeFrameBytesMax - kMessageReserve;
  const std::size_t fitting = bytes / (row_bytes(width) * 4 / 3 + 4 + kBytesPerIndex);
  return std::clamp<std::size_t>(fitting, 1, kRowsPerCallMax);
}

std::vector<Part> split(const planner::Batch& batch, std::uint32_t width) {
  std::vector<std::uint32_t> rows = batch.tokens;
  std::sort(rows.begin(), rows.end());
  const std::size_t most = rows_in_part_max(width);
  std::vector<Part> parts;
  for (std::size_t first = 0; first < rows.size(); first += most) {
    const std::size_t last = std::min(rows.size(), first + most);
    Part part{.expert = batch.slot.second, .holders = batch.holders};
    part.rows.assign(rows.begin() + static_cast<std::ptrdiff_t>(first),
                     rows.begin() + static_cast<std::ptrdiff_t>(last));
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<std::vector<PartIndex>> group(const std::vector<Part>& parts,
                                          const std::vector<PartIndex>& wanted, std::uint32_t width,
                                          bool carries_many) {
  // The reply is the larger: a row an (expert, row), where the request carries each row once.
  const std::size_t most = wire::kExecMessageBytesMax - kMessageReserve;
  std::vector<std::vector<PartIndex>> groups;
  std::size_t bytes = 0;
  std::size_t rows = 0;
  for (const PartIndex index : wanted) {
    const Part& part = parts[index];
    const std::size_t more =
        part.rows.size() * (row_bytes(width) + kBytesPerIndex) + kBytesPerExpert;
    const bool is_full = bytes + more > most || rows + part.rows.size() > kRowsPerCallMax;
    if (groups.empty() || !carries_many || is_full || groups.back().size() >= kExpertsPerCallMax) {
      groups.emplace_back();
      bytes = 0;
      rows = 0;
    }
    groups.back().push_back(index);
    bytes += more;
    rows += part.rows.size();
  }
  return groups;
}

std::vector<std::pair<PartIndex, BufferRef>> distribute(
    const std::vector<Part>& parts, const std::vector<PartIndex>& carried,
    const std::vector<work::ExpertOutput>& outputs) {
  std::vector<std::pair<PartIndex, BufferRef>> shares;
  for (const work::ExpertOutput& output : outputs) {
    if (output.rows.empty()) continue;
    const std::size_t bytes_per_row = output.values.size() / output.rows.size();
    std::size_t first = 0;
    for (const PartIndex index : carried) {
      const Part& part = parts[index];
      if (part.expert != output.expert) continue;
      if (first + part.rows.size() > output.rows.size()) break;
      shares.emplace_back(
          index, output.values.slice(first * bytes_per_row, part.rows.size() * bytes_per_row));
      first += part.rows.size();
    }
  }
  return shares;
}

Error holder_error(planner::View::Slot slot, const Error& error) {
  ErrorCode code = error.code;
  if (code == ErrorCode::forbidden) code = ErrorCode::runtime;  // a bad receipt, not a bad caller
  if (code == ErrorCode::invalid_params || code == ErrorCode::cancelled || code == ErrorCode::io)
    code = ErrorCode::infrastructure;
  return {code, "",
          "expert l" + std::to_string(slot.first) + "/e" + std::to_string(slot.second) +
              " holder error: " + error.message()};
}

}  // namespace tenzro::forward
