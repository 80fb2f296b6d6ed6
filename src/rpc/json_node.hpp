#pragma once
/// \file
/// One value of a parsed JSON text.
///
/// Nodes of a document stand in one array in the order of the text; a node is followed by its
/// children, so that its subtree is the `nodes` entries from itself on. Texts are views: into the
/// body that was parsed, or into the document where a string had escapes. Strings and arrays of
/// numbers are never copied or converted here: a tensor stays in the body until its parameter is
/// read, straight into its buffer.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tenzro::rpc {

enum class JsonKind : std::uint8_t {
  null,
  boolean,
  number,
  string,
  array,
  numbers,  ///< an array of one or more numbers and nothing else; has no child nodes
  object,
};

struct JsonNode {
  JsonKind kind = JsonKind::null;
  /// Here or below, an object names a member twice.
  bool has_duplicate_key = false;
  /// Children; for `numbers`, how many there are.
  std::uint32_t count = 0;
  /// Nodes of this subtree, this one included.
  std::uint32_t nodes = 1;
  /// The member's name, where the parent is an object; escapes are resolved.
  std::string_view key;
  /// The value as it was sent.
  std::string_view source;
  /// A string's content; escapes are resolved. Empty for other kinds.
  std::string_view text;

  [[nodiscard]] bool is_array() const {
    return kind == JsonKind::array || kind == JsonKind::numbers;
  }
};

/// Limits count values; this makes them bytes.
static_assert(sizeof(JsonNode) <= 64);

/// The child nodes of a node, in the order of the text. Requires that the node stands in its
/// document.
class JsonChildren {
 public:
  class Iterator {
   public:
    explicit Iterator(const JsonNode* at) : at_(at) {}

    const JsonNode& operator*() const { return *at_; }

    Iterator& operator++() {
      at_ += at_->nodes;
      return *this;
    }

    friend bool operator==(const Iterator& a, const Iterator& b) { return a.at_ == b.at_; }

   private:
    const JsonNode* at_;
  };

  explicit JsonChildren(const JsonNode& node) : node_(&node) {}

  [[nodiscard]] Iterator begin() const { return Iterator(node_ + 1); }

  [[nodiscard]] Iterator end() const { return Iterator(node_ + node_->nodes); }

 private:
  const JsonNode* node_;
};

/// The first member of that name, or null. Cost: O(members).
[[nodiscard]] const JsonNode* find_member(const JsonNode& object, std::string_view key);

/// The tokens of a `numbers` node, in order.
class NumberTokens {
 public:
  explicit NumberTokens(const JsonNode& numbers) : rest_(numbers.source) {}

  [[nodiscard]] std::optional<std::string_view> next();

 private:
  std::string_view rest_;
};

}  // namespace tenzro::rpc
