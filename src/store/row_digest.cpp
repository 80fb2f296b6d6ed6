#include "row_digest.hpp"

#include <array>
#include <cstdint>
#include <span>

#include <sqlite3.h>

#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"

namespace tenzro::store {
namespace {

void add_u64(crypto::Blake3& hasher, std::uint64_t value) {
  std::array<std::uint8_t, sizeof value> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
  }
  hasher.update(std::span<const std::uint8_t>(bytes));
}

void add_value(crypto::Blake3& hasher, sqlite3_value* value) {
  const int type = sqlite3_value_type(value);
  add_u64(hasher, static_cast<std::uint64_t>(type));
  if (type == SQLITE_NULL) return;
  if (type == SQLITE_INTEGER) {
    add_u64(hasher, static_cast<std::uint64_t>(sqlite3_value_int64(value)));
    return;
  }
  // Text and blobs as they are; no column holds a REAL, and a damaged one that does is text here.
  const void* data = type == SQLITE_BLOB ? sqlite3_value_blob(value) : sqlite3_value_text(value);
  const auto size = static_cast<std::size_t>(sqlite3_value_bytes(value));
  add_u64(hasher, size);
  if (data != nullptr) hasher.update(std::span(static_cast<const std::uint8_t*>(data), size));
}

void row_digest(sqlite3_context* context, int count, sqlite3_value** values) {
  crypto::Blake3 hasher;
  for (sqlite3_value* value : std::span(values, static_cast<std::size_t>(count))) {
    add_value(hasher, value);
  }
  const BlobHash digest = hasher.digest();
  sqlite3_result_blob(context, digest.data(), kRowDigestBytes, SQLITE_TRANSIENT);
}

}  // namespace

int add_row_digest(sqlite3* database) {
  constexpr int kAnyCount = -1;
  return sqlite3_create_function_v2(database, "row_digest", kAnyCount,
                                    SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY, nullptr,
                                    row_digest, nullptr, nullptr, nullptr);
}

}  // namespace tenzro::store
