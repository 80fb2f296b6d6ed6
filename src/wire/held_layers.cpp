#include "held_layers.hpp"

namespace tenzro::wire {
namespace {

void append_leb128(std::vector<std::uint8_t>& out, std::uint32_t value) {
  while (value >= 0x80U) {
    out.push_back(static_cast<std::uint8_t>(value | 0x80U));
    value >>= 7U;
  }
  out.push_back(static_cast<std::uint8_t>(value));
}

/// At most three bytes: no expert index and no gap is larger.
std::optional<std::uint32_t> read_leb128(std::span<const std::uint8_t>& bytes) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 3; ++i) {
    if (bytes.empty()) return std::nullopt;
    const std::uint8_t byte = bytes.front();
    bytes = bytes.subspan(1);
    value |= static_cast<std::uint32_t>(byte & 0x7FU) << (7U * i);
    if ((byte & 0x80U) == 0) {
      if (byte == 0 && i > 0) return std::nullopt;  // a longer form of a shorter number
      return value;
    }
  }
  return std::nullopt;
}

std::optional<std::vector<ExpertIndex>> read_list(std::span<const std::uint8_t> bytes,
                                                  std::size_t experts_max) {
  std::vector<ExpertIndex> experts;
  while (!bytes.empty()) {
    const auto gap = read_leb128(bytes);
    if (!gap || experts.size() >= experts_max) return std::nullopt;
    if (!experts.empty() && *gap == 0) return std::nullopt;
    const std::uint32_t expert = experts.empty() ? *gap : experts.back() + *gap;
    if (expert > kExpertIndexMax) return std::nullopt;
    experts.push_back(expert);
  }
  return experts;
}

std::optional<std::vector<ExpertIndex>> read_bitmap(std::span<const std::uint8_t> bytes,
                                                    std::size_t experts_max) {
  if (bytes.size() > (kExpertIndexMax + 1) / 8 || bytes.back() == 0) return std::nullopt;
  std::vector<ExpertIndex> experts;
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    if ((bytes[i / 8] >> (i % 8) & 1U) == 0) continue;
    if (experts.size() >= experts_max) return std::nullopt;
    experts.push_back(static_cast<ExpertIndex>(i));
  }
  return experts;
}

}  // namespace

std::uint32_t append_held(const HeldLayer& layer, std::vector<std::uint8_t>& out) {
  const std::size_t bitmap_bytes = layer.rbegin()->first / 8 + 1;
  std::vector<std::uint8_t> list;
  std::optional<ExpertIndex> last;
  for (const auto& [expert, held] : layer) {
    append_leb128(list, last ? expert - *last : expert);
    last = expert;
    if (list.size() >= bitmap_bytes) break;
  }
  if (list.size() < bitmap_bytes) {
    out.insert(out.end(), list.begin(), list.end());
    return static_cast<std::uint32_t>(list.size() * 2 + 1);
  }
  const std::size_t at = out.size();
  out.resize(at + bitmap_bytes);
  for (const auto& [expert, held] : layer) {
    out[at + expert / 8] = static_cast<std::uint8_t>(out[at + expert / 8] | (1U << (expert % 8)));
  }
  return static_cast<std::uint32_t>(bitmap_bytes * 2);
}

std::optional<std::vector<ExpertIndex>> read_held(std::span<const std::uint8_t> bytes, bool is_list,
                                                  std::size_t experts_max) {
  if (bytes.empty()) return std::nullopt;
  return is_list ? read_list(bytes, experts_max) : read_bitmap(bytes, experts_max);
}

}  // namespace tenzro::wire
