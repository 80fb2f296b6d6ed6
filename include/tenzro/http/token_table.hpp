#pragma once
/// \file
/// TokenTable: who may do what on the HTTP listener.
///
/// Format of a tokens file, one token a line; blank lines and lines that begin with `#` are
/// skipped:
///     name scope[,scope] sha256(token)
///  - `name`: 1..64 characters, unique; it appears in logs, the token never does.
///  - `scope`: read, execute or admin. They do not imply each other.
///  - the last field: 64 lower-case hex digits, the SHA-256 of the token's bytes.
///    Why a hash: a leaked file gives nobody access.
/// Rules
///  - An empty table means that no tokens are configured: every caller has every scope.
///  - A lookup hashes what was presented and compares it with every entry in constant time, so that
///    timing says nothing about a near miss.
/// Limits: kTokensMax lines. Thread: any once built; a value.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"

namespace tenzro::http {

/// What a caller may do; a bit each.
struct Scopes {
  bool read = false;
  bool execute = false;
  bool admin = false;
  friend bool operator==(const Scopes&, const Scopes&) = default;
};

inline constexpr Scopes kAllScopes{.read = true, .execute = true, .admin = true};
inline constexpr std::size_t kTokensMax = 10'000;

class TokenTable {
 public:
  struct Entry {
    std::string name;
    Scopes scopes;
    Hash32 sha256{};
  };

  /// `file` is the name that errors carry, as `file:line`.
  [[nodiscard]] static Result<TokenTable> parse(std::string_view text, std::string_view file);

  [[nodiscard]] bool empty() const { return entries_.empty(); }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

  /// The entry of this token; null where it is unknown.
  [[nodiscard]] const Entry* find(std::string_view token) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace tenzro::http
