#include "toml_characters.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace tenzro::config {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kSpace = " \t\r\n";
/// Characters of bare keys; with those after them, of numbers, dates and booleans too.
constexpr std::string_view kOfValues =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+.:";
constexpr std::string_view kOfKeys = kOfValues.substr(0, kOfValues.size() - 3);

bool is_ascii(char byte) {
  return static_cast<unsigned char>(byte) < 0x80;
}

/// Goes through a document along the grammar of TOML, up to the first place that breaks it.
class Walk {
 public:
  explicit Walk(std::string_view toml) : toml_(toml) {}

  /// Where nothing but ASCII may follow: the first mistake, a byte beyond ASCII that follows a
  /// backslash, or the end.
  std::size_t end_of_sound_part() {
    while (is_sound_ && skip(kSpace, true) < toml_.size()) take_statement();
    return at_;
  }

 private:
  /// What may come next inside of brackets.
  enum class Next : std::uint8_t { value, key, comma };

  [[nodiscard]] bool is_next(char wanted) const {
    return at_ < toml_.size() && toml_[at_] == wanted;
  }

  /// Passes the characters, and comments between them where `has_comments`; where it then is.
  std::size_t skip(std::string_view characters, bool has_comments) {
    for (;;) {
      at_ = std::min(toml_.find_first_not_of(characters, at_), toml_.size());
      if (!has_comments || !is_next('#')) return at_;
      at_ = std::min(toml_.find('\n', at_), toml_.size());
    }
  }

  void expect(char wanted) {
    skip(kBlanks, false);
    if (is_next(wanted)) {
      ++at_;
    } else {
      is_sound_ = false;
    }
  }

  /// A header or a key and its value, to the end of the line.
  void take_statement() {
    if (is_next('[')) {
      const bool is_array = toml_.substr(at_, 2) == "[[";
      at_ += is_array ? 2 : 1;
      take_key();
      if (is_sound_) expect(']');
      if (is_sound_ && is_array) expect(']');
    } else {
      take_key();
      if (is_sound_) expect('=');
      if (is_sound_) take_value();
    }
    if (!is_sound_) return;
    skip(kBlanks, false);
    is_sound_ = at_ == toml_.size() || is_next('#') || is_next('\n') || is_next('\r');
  }

  void take_key() {
    for (;;) {
      skip(kBlanks, false);
      take_string_or_word(kOfKeys);
      if (is_sound_) skip(kBlanks, false);
      if (!is_sound_ || !is_next('.')) return;
      ++at_;
    }
  }

  void take_string_or_word(std::string_view characters) {
    if (is_next('"') || is_next('\'')) return take_string();
    const std::size_t end = std::min(toml_.find_first_not_of(characters, at_), toml_.size());
    // A word ends where something follows that ends it for every parser.
    is_sound_ =
        end > at_ && (end == toml_.size() ||
                      std::string_view(" \t\r\n.,]}=#").find(toml_[end]) != std::string_view::npos);
    if (is_sound_) at_ = end;
  }

  /// A value with all that is in it. Brackets are kept in a list, so that depth costs no stack.
  void take_value() {
    std::string open;
    Next next = Next::value;
    do {
      const bool is_table = !open.empty() && open.back() == '{';
      skip(open.empty() || is_table ? kBlanks : kSpace, !open.empty() && !is_table);
      if (!open.empty() && is_next(is_table ? '}' : ']')) {
        ++at_;
        open.pop_back();
        next = Next::comma;
      } else if (next == Next::comma) {
        expect(',');
        next = is_table ? Next::key : Next::value;
      } else if (next == Next::key) {
        take_key();
        if (is_sound_) expect('=');
        next = Next::value;
      } else if (is_next('[') || is_next('{')) {
        open.push_back(toml_[at_++]);
        next = open.back() == '{' ? Next::key : Next::value;
      } else {
        take_string_or_word(kOfValues);
        next = Next::comma;
      }
    } while (is_sound_ && !open.empty());
  }

  /// To one past its end.
  void take_string() {
    const char quote = toml_[at_];
    const bool is_long = toml_.substr(at_, 3) == std::string(3, quote);
    const std::string mark(is_long ? 3 : 1, quote);
    for (at_ += mark.size(); at_ < toml_.size(); ++at_) {
      if (toml_[at_] == '\\' && quote == '"') {
        ++at_;
        // What an escaped end of line leads to, over all blanks.
        const std::size_t next = is_long ? toml_.find_first_not_of(kSpace, at_) : at_;
        is_sound_ = next >= toml_.size() || is_ascii(toml_[next]);
        if (!is_sound_) return;
      } else if (toml_[at_] == '\n' && !is_long) {
        is_sound_ = false;
        return;
      } else if (toml_.substr(at_, mark.size()) == mark) {
        at_ += mark.size();
        // Up to two more quotes are its last characters.
        for (int more = 0; more < 2 && is_long && is_next(quote); ++more) ++at_;
        return;
      }
    }
  }

  std::string_view toml_;
  std::size_t at_ = 0;
  bool is_sound_ = true;
};

}  // namespace

std::optional<std::size_t> find_stray_character(std::string_view toml) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::size_t begin = toml.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const std::size_t sound_end = begin + Walk(toml.substr(begin)).end_of_sound_part();
  for (std::size_t at = sound_end; at < toml.size(); ++at) {
    if (!is_ascii(toml[at])) return at;
  }
  return std::nullopt;
}

}  // namespace tenzro::config
