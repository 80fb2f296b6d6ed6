#pragma once
/// \file
/// GgufParts: the files of one GGUF checkpoint against what they say of each other.
///
/// Part i of n is called `...-0000i-of-0000n.gguf`, says `split.no` i - 1 and `split.count` n, and
/// holds tensors that no other part holds; all together hold `split.tensors.count` tensors, where
/// that is said. A file that is whole need say nothing. Every layer of `block_count` that is not a
/// dense one by the checkpoint's own word has tensors, and its experts a router. Errors: runtime,
/// naming the file and the key. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tenzro/work/source.hpp"

#include "checkpoint.hpp"

namespace tenzro::prepare {

class GgufParts {
 public:
  /// The first file. The names of the others, in order.
  [[nodiscard]] Result<std::vector<std::string>> begin(const std::string& file,
                                                       const work::ScannedGguf& scanned);
  /// The next of the others.
  [[nodiscard]] Status add(const std::string& file, const work::ScannedGguf& scanned);

  [[nodiscard]] bool are_all_here() const { return seen_ > 0 && seen_ == count_; }

  /// Requires are_all_here().
  [[nodiscard]] Status check_layers(const Checkpoint& checkpoint) const;

  [[nodiscard]] bool has(const std::string& tensor) const { return files_.contains(tensor); }

 private:
  [[nodiscard]] Status take(const std::string& file, const work::ScannedGguf& scanned);

  std::string first_;
  std::uint64_t count_ = 1;
  std::uint64_t seen_ = 0;
  std::optional<std::uint64_t> tensors_wanted_;
  std::map<std::string, std::string, std::less<>> files_;  ///< tensor -> its file
};

}  // namespace tenzro::prepare
