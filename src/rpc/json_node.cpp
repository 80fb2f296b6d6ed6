#include "json_node.hpp"

namespace tenzro::rpc {

const JsonNode* find_member(const JsonNode& object, std::string_view key) {
  for (const JsonNode& child : JsonChildren(object)) {
    if (child.key == key) return &child;
  }
  return nullptr;
}

std::optional<std::string_view> NumberTokens::next() {
  // No character of a number is below '+' or at '[' and ']', and no other stands between them.
  const auto is_between = [](char c) { return c < '+' || c == ',' || c == '[' || c == ']'; };
  std::size_t begin = 0;
  while (begin < rest_.size() && is_between(rest_[begin])) ++begin;
  std::size_t end = begin;
  while (end < rest_.size() && !is_between(rest_[end])) ++end;
  if (begin == end) return std::nullopt;
  const std::string_view token = rest_.substr(begin, end - begin);
  rest_.remove_prefix(end);
  return token;
}

}  // namespace tenzro::rpc
