#include "tenzro/tensor/foreign_file.hpp"

#include <algorithm>

namespace tenzro::tensor {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kPointer = "version https://git-lfs";
constexpr std::size_t kPointerBytesMin = 8;

/// "<html", "<!doctype", "<?xml" and the like.
bool is_tag(std::string_view text) {
  if (text.size() < 2 || text[0] != '<') return false;
  const char c = text[1];
  return c == '!' || c == '?' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::optional<std::string_view> foreign_file(std::string_view start) {
  const std::string_view shown = start.substr(0, kPointer.size());
  if (shown.size() >= kPointerBytesMin && kPointer.starts_with(shown))
    return "the file is a git LFS pointer, not the data it names";
  if (start.starts_with(kByteOrderMark)) start.remove_prefix(kByteOrderMark.size());
  start.remove_prefix(std::min(start.find_first_not_of(" \t\r\n"), start.size()));
  if (is_tag(start)) return "the file is an HTML page";
  return std::nullopt;
}

}  // namespace tenzro::tensor
