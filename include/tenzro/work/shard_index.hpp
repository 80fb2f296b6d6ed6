#pragma once
/// \file
/// ShardIndex: which file of a sharded checkpoint holds each tensor.
///
/// That of a large model has half a million names, so it is compact: the names in one string,
/// twelve bytes a tensor, each file's name once. It needs less than the JSON text that it was read
/// from. Filled by `add`, then `seal`ed once; looked up after that alone. Pure.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenzro::work {

class ShardIndex {
 public:
  /// No checkpoint has near so many.
  static constexpr std::size_t kFilesMax = 1U << 16U;
  /// Of all names together.
  static constexpr std::size_t kNameBytesMax = 1U << 30U;

  /// False beyond a bound; then nothing was added.
  [[nodiscard]] bool add(std::string_view tensor, std::string_view file);
  /// A tensor that was added twice, if any: then this is of no use.
  [[nodiscard]] std::optional<std::string> seal();

  /// Null where the index does not name it.
  [[nodiscard]] const std::string* file_of(std::string_view tensor) const;

  [[nodiscard]] bool contains(std::string_view tensor) const { return file_of(tensor) != nullptr; }

  /// In order of names.
  [[nodiscard]] std::vector<std::string> tensors() const;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
    std::uint32_t file = 0;
  };

  [[nodiscard]] std::string_view name_of(const Entry& entry) const {
    return std::string_view(names_).substr(entry.begin, entry.length);
  }

  std::string names_;
  std::vector<Entry> entries_;                                 ///< in order of names, when sealed
  std::vector<std::string> files_;                             ///< each once
  std::map<std::string, std::uint32_t, std::less<>> numbers_;  ///< of files; until sealed
};

}  // namespace tenzro::work
