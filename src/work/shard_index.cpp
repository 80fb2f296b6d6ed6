#include "tenzro/work/shard_index.hpp"

#include <algorithm>

namespace tenzro::work {

bool ShardIndex::add(std::string_view tensor, std::string_view file) {
  if (tensor.size() > kNameBytesMax - names_.size()) return false;
  auto number = numbers_.find(file);
  if (number == numbers_.end()) {
    if (files_.size() == kFilesMax) return false;
    number = numbers_.emplace(file, static_cast<std::uint32_t>(files_.size())).first;
    files_.emplace_back(file);
  }
  entries_.push_back({.begin = static_cast<std::uint32_t>(names_.size()),
                      .length = static_cast<std::uint32_t>(tensor.size()),
                      .file = number->second});
  names_.append(tensor);
  return true;
}

std::optional<std::string> ShardIndex::seal() {
  numbers_.clear();
  names_.shrink_to_fit();
  entries_.shrink_to_fit();
  std::sort(entries_.begin(), entries_.end(),
            [this](const Entry& a, const Entry& b) { return name_of(a) < name_of(b); });
  const auto twice = std::adjacent_find(
      entries_.begin(), entries_.end(),
      [this](const Entry& a, const Entry& b) { return name_of(a) == name_of(b); });
  if (twice == entries_.end()) return std::nullopt;
  return std::string(name_of(*twice));
}

const std::string* ShardIndex::file_of(std::string_view tensor) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), tensor,
      [this](const Entry& entry, std::string_view name) { return name_of(entry) < name; });
  if (found == entries_.end() || name_of(*found) != tensor) return nullptr;
  return &files_[found->file];
}

std::vector<std::string> ShardIndex::tensors() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.emplace_back(name_of(entry));
  return names;
}

}  // namespace tenzro::work
