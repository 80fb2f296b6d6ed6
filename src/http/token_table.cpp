#include "tenzro/http/token_table.hpp"

#include <algorithm>

#include <openssl/crypto.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/sha256.hpp"

namespace tenzro::http {
namespace {

constexpr std::size_t kNameBytesMax = 64;

constexpr std::string_view kBlanks = " \t\r";

/// The next run of non-blanks, taken off the front of `line`; empty at the end.
std::string_view take_word(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) {
    line = {};
    return {};
  }
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

/// Adds the scopes of `list` to `scopes`; the unknown word on failure.
std::optional<std::string_view> parse_scopes(std::string_view list, Scopes& scopes) {
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    if (word == "read") {
      scopes.read = true;
    } else if (word == "execute") {
      scopes.execute = true;
    } else if (word == "admin") {
      scopes.admin = true;
    } else {
      return word;
    }
    if (comma == std::string_view::npos) return std::nullopt;
    list.remove_prefix(comma + 1);
  }
}

Result<TokenTable::Entry> parse_line(std::string_view line, const std::string& where) {
  const std::string_view name = take_word(line);
  const std::string_view scope_list = take_word(line);
  const std::string_view hash_hex = take_word(line);
  if (hash_hex.empty() || !take_word(line).empty()) {
    return fail(ErrorCode::invalid_params, where, "expected: name scope[,scope] sha256(token)");
  }
  if (name.size() > kNameBytesMax || !is_valid_utf8(name)) {
    return fail(ErrorCode::invalid_params, where, "name is longer than 64 bytes or not UTF-8");
  }
  TokenTable::Entry entry{.name = std::string(name), .scopes = {}, .sha256 = {}};
  if (const auto unknown = parse_scopes(scope_list, entry.scopes)) {
    return fail(ErrorCode::invalid_params, where,
                "unknown scope '" + echo(*unknown) + "': expected read, execute or admin");
  }
  const std::optional<Hash32> hash = hash_from_hex(hash_hex);
  if (!hash) {
    return fail(ErrorCode::invalid_params, where,
                "the last field must be 64 lower-case hex digits, the SHA-256 of the token");
  }
  entry.sha256 = *hash;
  return entry;
}

}  // namespace

Result<TokenTable> TokenTable::parse(std::string_view text, std::string_view file) {
  TokenTable table;
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t line_end = text.find('\n');
    const std::string_view line = text.substr(0, line_end);
    text.remove_prefix(line_end == std::string_view::npos ? text.size() : line_end + 1);
    const std::size_t first = line.find_first_not_of(kBlanks);
    if (first == std::string_view::npos || line[first] == '#') continue;

    const std::string where = std::string(file) + ":" + std::to_string(line_number);
    Result<Entry> entry = parse_line(line, where);
    if (!entry) return fail(std::move(entry.error()));
    const bool is_known =
        std::any_of(table.entries_.begin(), table.entries_.end(), [&](const Entry& other) {
          return other.name == entry->name || other.sha256 == entry->sha256;
        });
    if (is_known) {
      return fail(ErrorCode::invalid_params, where, "this name or token stands on a line above");
    }
    if (table.entries_.size() == kTokensMax) {
      return fail(ErrorCode::invalid_params, where, "more than 10000 tokens");
    }
    table.entries_.push_back(std::move(*entry));
  }
  return table;
}

const TokenTable::Entry* TokenTable::find(std::string_view token) const {
  const Hash32 presented = crypto::sha256(token);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {  // no early exit: every lookup costs the same
    if (CRYPTO_memcmp(entry.sha256.data(), presented.data(), presented.size()) == 0) found = &entry;
  }
  return found;
}

}  // namespace tenzro::http
