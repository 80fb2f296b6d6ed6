#pragma once
/// \file
/// row_digest: an SQL function that tells a row from one in which a bit has flipped.
///
/// `row_digest(a, b, ...)` is the first kRowDigestBytes of the BLAKE3 of its arguments, each
/// written as its type, its size and its bytes. Why in SQL: the same expression makes the digest of
/// a new row, checks every row in one query, and gives an older file its digests. Why not SQLite's
/// own checksums: they are an extension that a system's library need not have.
#include <cstddef>

struct sqlite3;

namespace tenzro::store {

inline constexpr std::size_t kRowDigestBytes = 16;

/// An SQLite result code.
[[nodiscard]] int add_row_digest(sqlite3* database);

}  // namespace tenzro::store
