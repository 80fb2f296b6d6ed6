#include "json_parser.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "json_text.hpp"

namespace tenzro::rpc {
namespace {

/// Objects of at most this many members are searched for duplicates pair by pair.
constexpr std::uint32_t kPairwiseMax = 8;
constexpr std::string_view kTensorKey = "hidden";

bool has_twins_pairwise(const JsonNode& object) {
  std::uint32_t index = 0;
  for (const JsonNode& child : JsonChildren(object)) {
    std::uint32_t earlier = 0;
    for (const JsonNode& other : JsonChildren(object)) {
      if (earlier++ == index) break;
      if (other.key == child.key) return true;
    }
    ++index;
  }
  return false;
}

bool has_twins(const JsonNode& object) {
  if (object.count <= kPairwiseMax) return has_twins_pairwise(object);
  std::vector<std::string_view> keys;
  keys.reserve(object.count);
  for (const JsonNode& child : JsonChildren(object)) keys.push_back(child.key);
  std::sort(keys.begin(), keys.end());
  return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
}

std::uint32_t narrow(std::size_t size) {
  return static_cast<std::uint32_t>(size);
}

}  // namespace

class JsonParser {
 public:
  JsonParser(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}

  Result<JsonDocument> run();

 private:
  /// What may come next.
  enum class Expect : std::uint8_t { value, value_or_end, key, key_or_end, comma_or_end, nothing };

  bool step();
  bool read_value();
  bool read_string_value();
  bool read_key();
  bool read_separator();
  std::optional<bool> read_numbers();
  std::optional<std::string_view> read_string(std::string_view& content);
  bool add(JsonKind kind, std::string_view source);
  bool open(JsonKind kind);
  void close();
  bool is_within_limits(std::size_t more_values);
  void skip_space();
  bool fail_at(std::string_view what);

  [[nodiscard]] bool is_next(char c) const { return at_ < text_.size() && text_[at_] == c; }

  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }

  void after_value() { expect_ = open_.empty() ? Expect::nothing : Expect::comma_or_end; }

  std::string_view text_;
  JsonLimits limits_;
  std::size_t at_ = 0;
  Expect expect_ = Expect::value;
  std::size_t values_ = 0;
  std::string_view key_;
  /// Indices of the containers that are still open, outermost first.
  std::vector<std::size_t> open_;
  JsonDocument document_;
  Error error_;
};

bool JsonParser::fail_at(std::string_view what) {
  error_ = {ErrorCode::parse_error, "", "parse error at byte " + std::to_string(at_) + ": "};
  error_.detail += what;
  return false;
}

void JsonParser::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
}

bool JsonParser::is_within_limits(std::size_t more_values) {
  if (more_values > limits_.values_max - values_) {
    error_ = {ErrorCode::invalid_request, "",
              "more than " + std::to_string(limits_.values_max) + " values in one body"};
    return false;
  }
  values_ += more_values;
  return true;
}

bool JsonParser::add(JsonKind kind, std::string_view source) {
  if (!is_within_limits(1)) return false;
  if (!open_.empty()) ++document_.nodes_[open_.back()].count;
  document_.nodes_.push_back(
      JsonNode{.kind = kind, .key = std::exchange(key_, {}), .source = source, .text = {}});
  return true;
}

bool JsonParser::open(JsonKind kind) {
  if (open_.size() >= limits_.depth_max) {
    return fail_at("nested deeper than " + std::to_string(limits_.depth_max) + " levels");
  }
  if (!add(kind, rest())) return false;
  open_.push_back(document_.nodes_.size() - 1);
  ++at_;
  expect_ = kind == JsonKind::object ? Expect::key_or_end : Expect::value_or_end;
  return true;
}

void JsonParser::close() {
  ++at_;
  JsonNode& node = document_.nodes_[open_.back()];
  node.nodes = narrow(document_.nodes_.size() - open_.back());
  node.source = node.source.substr(0, node.source.size() - (text_.size() - at_));
  if (node.kind == JsonKind::object && has_twins(node)) node.has_duplicate_key = true;
  open_.pop_back();
  if (node.has_duplicate_key && !open_.empty()) {
    document_.nodes_[open_.back()].has_duplicate_key = true;
  }
  after_value();
}

std::optional<std::string_view> JsonParser::read_string(std::string_view& content) {
  const StringToken token = scan_string(rest());
  if (token.size == 0) {
    fail_at(token.fault);
    return std::nullopt;
  }
  const std::string_view source = text_.substr(at_, token.size);
  content = source.substr(1, source.size() - 2);
  if (token.has_escapes) {
    std::optional<std::string> plain = unescape(content);
    if (!plain) {
      fail_at("a string with an invalid escape");
      return std::nullopt;
    }
    content = document_.unescaped_.emplace_back(std::move(*plain));
  }
  at_ += token.size;
  return source;
}

bool JsonParser::read_key() {
  if (!is_next('"')) return fail_at("expected a member's name");
  if (!read_string(key_)) return false;
  skip_space();
  if (!is_next(':')) return fail_at("expected ':'");
  ++at_;
  expect_ = Expect::value;
  return true;
}

bool JsonParser::read_string_value() {
  std::string_view content;
  const std::optional<std::string_view> source = read_string(content);
  if (!source || !add(JsonKind::string, *source)) return false;
  document_.nodes_.back().text = content;
  after_value();
  return true;
}

/// An array of numbers alone, as one node. Nothing where it is another array: then the position is
/// back at its bracket.
std::optional<bool> JsonParser::read_numbers() {
  const std::size_t begin = at_;
  std::size_t count = 0;
  while (true) {
    ++at_;  // the bracket, or a comma
    skip_space();
    const std::size_t size = scan_number(rest());
    if (size == 0) break;
    at_ += size;
    ++count;
    skip_space();
    if (is_next(',')) continue;
    if (!is_next(']')) break;
    ++at_;
    const bool is_tensor = key_ == kTensorKey;
    if (!add(JsonKind::numbers, text_.substr(begin, at_ - begin))) return false;
    document_.nodes_.back().count = narrow(count);
    after_value();
    return is_tensor || is_within_limits(count);
  }
  at_ = begin;
  return std::nullopt;
}

bool JsonParser::read_value() {
  if (is_next('{')) return open(JsonKind::object);
  if (is_next('[')) {
    const bool is_too_deep = open_.size() >= limits_.depth_max;
    const std::optional<bool> done = is_too_deep ? std::nullopt : read_numbers();
    return done ? *done : open(JsonKind::array);
  }
  if (is_next('"')) return read_string_value();
  std::size_t size = scan_number(rest());
  JsonKind kind = JsonKind::number;
  for (const std::string_view word : {"true", "false", "null"}) {
    if (!rest().starts_with(word)) continue;
    size = word.size();
    kind = word == "null" ? JsonKind::null : JsonKind::boolean;
  }
  if (size == 0) return fail_at("expected a value");
  if (!add(kind, text_.substr(at_, size))) return false;
  at_ += size;
  after_value();
  return true;
}

bool JsonParser::read_separator() {
  const bool is_object = document_.nodes_[open_.back()].kind == JsonKind::object;
  if (is_next(',')) {
    ++at_;
    expect_ = is_object ? Expect::key : Expect::value;
    return true;
  }
  if (!is_next(is_object ? '}' : ']')) {
    return fail_at(is_object ? "expected ',' or '}'" : "expected ',' or ']'");
  }
  close();
  return true;
}

bool JsonParser::step() {
  switch (expect_) {
    case Expect::value_or_end:
      if (!is_next(']')) return read_value();
      close();
      return true;
    case Expect::value:
      return read_value();
    case Expect::key_or_end:
      if (!is_next('}')) return read_key();
      close();
      return true;
    case Expect::key:
      return read_key();
    case Expect::comma_or_end:
      return read_separator();
    case Expect::nothing:
      break;
  }
  return fail_at("text after the value");
}

Result<JsonDocument> JsonParser::run() {
  if (text_.size() > kBodyBytesMax) {
    return fail(ErrorCode::invalid_request, "", "a body of more than 2 GiB");
  }
  while (true) {
    skip_space();
    if (at_ == text_.size()) break;
    if (!step()) return fail(std::move(error_));
  }
  if (expect_ != Expect::nothing) {
    fail_at("the text ends early");
    return fail(std::move(error_));
  }
  return std::move(document_);
}

Result<JsonDocument> parse_json(std::string_view text, const JsonLimits& limits) {
  return JsonParser(text, limits).run();
}

}  // namespace tenzro::rpc
