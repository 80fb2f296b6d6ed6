// Index: making its file, checking it, bringing it up to date and setting damaged rows aside.
#include <string>
#include <utility>

#include "tenzro/base/bytes.hpp"

#include "holding_codec.hpp"
#include "index.hpp"

namespace tenzro::store {
namespace {

constexpr std::int64_t kSchemaVersion = 2;
constexpr std::int64_t kVersionWithoutDigests = 1;

constexpr const char* kSettings =
    "PRAGMA synchronous=FULL;"
    // Every commit goes on into the database file at once: what a damaged log could lose is one
    // change, not a session.
    "PRAGMA wal_autocheckpoint=1;"
    "PRAGMA trusted_schema=OFF;"
    "PRAGMA cell_size_check=ON;"
    "PRAGMA temp_store=MEMORY;";

constexpr const char* kTables =
    "CREATE TABLE holdings("
    "  model TEXT NOT NULL, layer INTEGER NOT NULL, expert INTEGER NOT NULL, hash BLOB NOT NULL,"
    "  source_uri TEXT, d_model INTEGER NOT NULL, d_ff INTEGER NOT NULL, gate_type TEXT,"
    "  up_type TEXT NOT NULL, down_type TEXT NOT NULL, resident_bytes INTEGER NOT NULL,"
    "  gate_experts INTEGER NOT NULL, gate_d_model INTEGER NOT NULL, gate_bytes INTEGER NOT NULL,"
    "  saved INTEGER NOT NULL, digest BLOB, PRIMARY KEY(model, layer, expert)) WITHOUT ROWID;"
    "CREATE TABLE blobs("
    "  hash BLOB NOT NULL PRIMARY KEY, size INTEGER NOT NULL, published INTEGER NOT NULL,"
    "  digest BLOB) WITHOUT ROWID;";

/// For those who want to know what happened to the disk.
constexpr const char* kDamagedTable = "CREATE TABLE damaged_rows(row TEXT NOT NULL);";

constexpr const char* kIndexes =
    "CREATE INDEX holdings_by_hash ON holdings(hash);"
    "CREATE INDEX holdings_by_saved ON holdings(saved);";

/// Before rows are deleted: an index of a damaged row has what the row no longer says, and the
/// delete would fail for it.
constexpr const char* kDropIndexes = "DROP INDEX holdings_by_hash; DROP INDEX holdings_by_saved;";

constexpr const char* kSetVersion = "PRAGMA user_version=2;";

/// Stands in damaged_rows from the moment rows of blobs are set aside until every file that may
/// have been theirs has a row again. Why kept in the file: a start that is cut short must not end
/// with those files taken for strays.
constexpr const char* kBeginAdopting = "INSERT INTO damaged_rows VALUES('adopting');";
constexpr const char* kEndAdopting = "DELETE FROM damaged_rows WHERE row = 'adopting';";
constexpr const char* kIsAdopting = "SELECT count(*) FROM damaged_rows WHERE row = 'adopting'";

/// Rows kept in damaged_rows; beyond them the oldest go.
constexpr const char* kForgetOldDamage =
    "DELETE FROM damaged_rows WHERE rowid <= (SELECT max(rowid) FROM damaged_rows) - 1000;";

/// What is wrong with the pages, or "ok". A value of another type than its column's is the damage
/// of one row, whose digest tells it too.
constexpr const char* kCheckPages =
    "SELECT coalesce(min(quick_check), 'ok') FROM pragma_quick_check"
    " WHERE quick_check <> 'ok' AND quick_check NOT LIKE '% value in %'";

struct Table {
  const char* name;
  std::string columns;  ///< all but the digest
};

Table holdings_table() {
  return {"holdings", std::string(kHoldingColumns) + ", saved"};
}

Table blobs_table() {
  return {"blobs", "hash, size, published"};
}

std::string digest_of(const Table& table) {
  return "row_digest(" + table.columns + ")";
}

std::string damaged_where(const Table& table) {
  return std::string(" FROM ") + table.name + " WHERE digest IS NOT " + digest_of(table);
}

/// SQL for the table's name and the row's values, as text that SQL reads back.
std::string quoted(const Table& table) {
  std::string text = std::string("'") + table.name + "'";
  std::string_view left = table.columns;
  while (!left.empty()) {
    const std::size_t comma = left.find(", ");
    text += " || ' ' || quote(" + std::string(left.substr(0, comma)) + ")";
    left.remove_prefix(comma == std::string_view::npos ? left.size() : comma + 2);
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Index>> Index::open(const std::string& path) {
  Result<std::unique_ptr<Database>> database = Database::open(path);
  if (!database) return fail(database.error());
  std::unique_ptr<Index> index(new Index(std::move(*database)));
  if (Status checked = index->check_file(); !checked) return fail(checked.error());
  return index;
}

Status Index::check_file() {
  const Result<std::int64_t> version = database_->ask_integer("PRAGMA user_version");
  if (!version) return fail(version.error());
  const Result<std::int64_t> tables = database_->ask_integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return fail(tables.error());
  is_missing_ = *version == 0 && *tables == 0;
  if (is_missing_) return {};
  if (*version != kSchemaVersion && *version != kVersionWithoutDigests) {
    return fail(database_->damaged("its schema version is " + std::to_string(*version) +
                                   ", this program knows " + std::to_string(kSchemaVersion)));
  }
  if (Status set = database_->execute(kSettings); !set) return set;
  const Result<std::string> pages = database_->ask(kCheckPages);
  if (!pages) return fail(pages.error());
  if (*pages != "ok") return fail(database_->damaged(echo(*pages)));
  if (*version == kVersionWithoutDigests) {
    if (Status added = add_digests(); !added) return added;
  }
  if (Status checked = check_rows(); !checked) return checked;
  const Result<std::int64_t> saved =
      database_->ask_integer("SELECT coalesce(max(saved), 0) FROM holdings");
  if (!saved) return fail(saved.error());
  last_saved_ = *saved;
  return {};
}

Status Index::add_digests() {
  Result<Transaction> transaction = Transaction::begin(*database_);
  if (!transaction) return fail(transaction.error());
  std::string sql = kDamagedTable;
  for (const Table& table : {holdings_table(), blobs_table()}) {
    sql += std::string("ALTER TABLE ") + table.name + " ADD COLUMN digest BLOB;";
    sql += std::string("UPDATE ") + table.name + " SET digest = " + digest_of(table) + ";";
  }
  sql += kSetVersion;
  if (Status added = database_->execute(sql.c_str()); !added) return added;
  return transaction->commit();
}

Status Index::check_rows() {
  const auto count = [this](const Table& table) {
    return database_->ask_integer("SELECT count(*)" + damaged_where(table));
  };
  const Result<std::int64_t> holdings = count(holdings_table());
  if (!holdings) return fail(holdings.error());
  const Result<std::int64_t> blobs = count(blobs_table());
  if (!blobs) return fail(blobs.error());
  damage_ = {.holdings = static_cast<std::uint64_t>(*holdings),
             .blobs = static_cast<std::uint64_t>(*blobs)};
  // Also whether what finds rows by hash or by time agrees with the rows.
  const Result<std::string> whole = database_->ask("PRAGMA integrity_check(1)");
  if (!whole) return fail(whole.error());
  if (*whole == "ok" && damage_.holdings == 0 && damage_.blobs == 0) return read_adopting();
  if (Status set_aside = set_damaged_aside(); !set_aside) return set_aside;
  const Result<std::string> mended = database_->ask("PRAGMA integrity_check(1)");
  if (!mended) return fail(mended.error());
  if (*mended != "ok") return fail(database_->damaged(echo(*mended)));
  return read_adopting();
}

Status Index::read_adopting() {
  const Result<std::int64_t> adopting = database_->ask_integer(kIsAdopting);
  if (!adopting) return fail(adopting.error());
  is_adopting_ = *adopting > 0;
  return {};
}

Status Index::end_adopting() {
  if (!is_adopting_) return {};
  if (Status ended = database_->execute(kEndAdopting); !ended) return ended;
  is_adopting_ = false;
  return {};
}

Status Index::set_damaged_aside() {
  Result<Transaction> transaction = Transaction::begin(*database_);
  if (!transaction) return fail(transaction.error());
  std::string sql = kDropIndexes;
  for (const Table& table : {holdings_table(), blobs_table()}) {
    sql += "INSERT INTO damaged_rows SELECT " + quoted(table) + damaged_where(table) + ";";
    sql += "DELETE" + damaged_where(table) + ";";
  }
  sql += kForgetOldDamage;
  if (damage_.blobs > 0) sql += kBeginAdopting;
  sql += kIndexes;
  if (Status changed = database_->execute(sql.c_str()); !changed) return changed;
  return transaction->commit();
}

Error Index::missing(std::string_view why) const {
  return database_->absent(why);
}

Status Index::create() {
  // The mode is written into the file, so it is chosen once.
  const Result<std::string> mode = database_->ask("PRAGMA journal_mode=WAL");
  if (!mode) return fail(mode.error());
  if (Status set = database_->execute(kSettings); !set) return set;
  Result<Transaction> transaction = Transaction::begin(*database_);
  if (!transaction) return fail(transaction.error());
  for (const char* sql : {kTables, kIndexes, kDamagedTable, kSetVersion}) {
    if (Status created = database_->execute(sql); !created) return created;
  }
  if (Status committed = transaction->commit(); !committed) return committed;
  is_missing_ = false;
  return {};
}

}  // namespace tenzro::store
