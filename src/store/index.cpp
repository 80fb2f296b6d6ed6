#include "index.hpp"

#include <array>
#include <string>
#include <utility>

#include "tenzro/base/bytes.hpp"

#include "holding_codec.hpp"

namespace tenzro::store {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

constexpr const char* kSettings =
    "PRAGMA synchronous=FULL;"
    // Every commit goes on into the database file at once: what a damaged log could lose is one
    // change, not a session.
    "PRAGMA wal_autocheckpoint=1;"
    "PRAGMA trusted_schema=OFF;"
    "PRAGMA cell_size_check=ON;"
    "PRAGMA temp_store=MEMORY;";

constexpr const char* kSchema =
    "CREATE TABLE holdings("
    "  model TEXT NOT NULL, layer INTEGER NOT NULL, expert INTEGER NOT NULL, hash BLOB NOT NULL,"
    "  source_uri TEXT, d_model INTEGER NOT NULL, d_ff INTEGER NOT NULL, gate_type TEXT,"
    "  up_type TEXT NOT NULL, down_type TEXT NOT NULL, resident_bytes INTEGER NOT NULL,"
    "  gate_experts INTEGER NOT NULL, gate_d_model INTEGER NOT NULL, gate_bytes INTEGER NOT NULL,"
    "  saved INTEGER NOT NULL, PRIMARY KEY(model, layer, expert)) WITHOUT ROWID;"
    "CREATE INDEX holdings_by_hash ON holdings(hash);"
    "CREATE INDEX holdings_by_saved ON holdings(saved);"
    "CREATE TABLE blobs("
    "  hash BLOB NOT NULL PRIMARY KEY, size INTEGER NOT NULL, published INTEGER NOT NULL) WITHOUT "
    "ROWID;"
    "PRAGMA user_version=1;";

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
  if (*version != kSchemaVersion) {
    return fail(database_->damaged("its schema version is " + std::to_string(*version) +
                                   ", this program knows " + std::to_string(kSchemaVersion)));
  }
  if (Status set = database_->execute(kSettings); !set) return set;
  const Result<std::string> check = database_->ask("PRAGMA quick_check(1)");
  if (!check) return fail(check.error());
  if (*check != "ok") return fail(database_->damaged(echo(*check)));
  const Result<std::int64_t> saved =
      database_->ask_integer("SELECT coalesce(max(saved), 0) FROM holdings");
  if (!saved) return fail(saved.error());
  last_saved_ = *saved;
  return {};
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
  if (Status created = database_->execute(kSchema); !created) return created;
  if (Status committed = transaction->commit(); !committed) return committed;
  is_missing_ = false;
  return {};
}

Result<std::vector<work::HoldingRow>> Index::holdings() {
  Result<Statement> statement = database_->prepare("SELECT " + std::string(kHoldingColumns) +
                                                   " FROM holdings ORDER BY saved DESC");
  if (!statement) return fail(statement.error());
  std::vector<work::HoldingRow> rows;
  for (;;) {
    const Result<bool> has_row = statement->step();
    if (!has_row) return fail(has_row.error());
    if (!*has_row) return rows;
    std::optional<work::HoldingRow> row = read_holding(*statement);
    if (!row) return fail(database_->damaged("a holding has impossible values"));
    rows.push_back(std::move(*row));
  }
}

Result<std::vector<BlobRow>> Index::blobs(std::uint8_t first_byte) {
  Result<Statement> statement =
      database_->prepare("SELECT hash, size FROM blobs WHERE hash >= ? AND hash < ? ORDER BY hash");
  if (!statement) return fail(statement.error());
  // One byte longer than a hash, so that it is above every hash of the last folder.
  std::array<std::uint8_t, std::tuple_size_v<BlobHash> + 1> above{};
  above.fill(0xFF);
  const std::uint8_t next = static_cast<std::uint8_t>(first_byte + 1);
  std::span<const std::uint8_t> end(above);
  if (next != 0) end = std::span(&next, 1);
  statement->bind(std::span(&first_byte, 1)).bind(end);
  std::vector<BlobRow> rows;
  for (;;) {
    const Result<bool> has_row = statement->step();
    if (!has_row) return fail(has_row.error());
    if (!*has_row) return rows;
    const std::optional<BlobHash> hash = read_hash(*statement, 0);
    if (!hash || statement->integer(1) < 0) {
      return fail(database_->damaged("a blob has impossible values"));
    }
    rows.push_back({*hash, static_cast<std::uint64_t>(statement->integer(1))});
  }
}

Result<std::optional<BlobRow>> Index::blob(const BlobHash& hash) {
  Result<Statement> statement = database_->prepare("SELECT size FROM blobs WHERE hash = ?");
  if (!statement) return fail(statement.error());
  const Result<bool> has_row = statement->bind(hash).step();
  if (!has_row) return fail(has_row.error());
  if (!*has_row) return std::optional<BlobRow>();
  return std::optional<BlobRow>({hash, static_cast<std::uint64_t>(statement->integer(0))});
}

Result<Index::Removed> Index::save(const work::HoldingRow& row, std::uint64_t blob_bytes) {
  Result<Transaction> transaction = Transaction::begin(*database_);
  if (!transaction) return fail(transaction.error());
  const Result<std::optional<BlobHash>> old = hash_of_key(row.layer, row.expert);
  if (!old) return fail(old.error());
  if (Status added = add_blob({row.hash, blob_bytes}); !added) return fail(added.error());
  if (Status inserted = insert(row); !inserted) return fail(inserted.error());
  Removed removed{.existed = old->has_value(), .unneeded = std::nullopt};
  if (*old) {
    Result<std::optional<BlobRow>> unneeded = drop_if_unneeded(**old);
    if (!unneeded) return fail(unneeded.error());
    removed.unneeded = *unneeded;
  }
  if (Status committed = transaction->commit(); !committed) return fail(committed.error());
  return removed;
}

Result<Index::Removed> Index::remove(const LayerKey& layer, std::optional<ExpertIndex> expert) {
  Result<Transaction> transaction = Transaction::begin(*database_);
  if (!transaction) return fail(transaction.error());
  const Result<std::optional<BlobHash>> old = hash_of_key(layer, expert);
  if (!old) return fail(old.error());
  if (!*old) return Removed();
  Result<Statement> statement =
      database_->prepare("DELETE FROM holdings WHERE model = ? AND layer = ? AND expert = ?");
  if (!statement) return fail(statement.error());
  const Status deleted = statement->bind(layer.model)
                             .bind(std::int64_t{layer.layer})
                             .bind(expert_column(expert))
                             .run();
  if (!deleted) return fail(deleted.error());
  const Result<std::optional<BlobRow>> unneeded = drop_if_unneeded(**old);
  if (!unneeded) return fail(unneeded.error());
  if (Status committed = transaction->commit(); !committed) return fail(committed.error());
  return Removed{.existed = true, .unneeded = *unneeded};
}

Status Index::publish(const BlobRow& blob) {
  Result<Statement> statement = database_->prepare(
      "INSERT INTO blobs(hash, size, published) VALUES(?, ?, 1) ON CONFLICT(hash) DO UPDATE SET "
      "published = 1");
  if (!statement) return fail(statement.error());
  return statement->bind(blob.hash).bind(static_cast<std::int64_t>(blob.size_bytes)).run();
}

Status Index::forget(const BlobHash& hash) {
  Result<Transaction> transaction = Transaction::begin(*database_);
  if (!transaction) return fail(transaction.error());
  for (const char* sql :
       {"DELETE FROM holdings WHERE hash = ?", "DELETE FROM blobs WHERE hash = ?"}) {
    Result<Statement> statement = database_->prepare(sql);
    if (!statement) return fail(statement.error());
    if (Status deleted = statement->bind(hash).run(); !deleted) return deleted;
  }
  return transaction->commit();
}

Result<std::optional<BlobHash>> Index::hash_of_key(const LayerKey& layer,
                                                   std::optional<ExpertIndex> expert) {
  Result<Statement> statement =
      database_->prepare("SELECT hash FROM holdings WHERE model = ? AND layer = ? AND expert = ?");
  if (!statement) return fail(statement.error());
  const Result<bool> has_row = statement->bind(layer.model)
                                   .bind(std::int64_t{layer.layer})
                                   .bind(expert_column(expert))
                                   .step();
  if (!has_row) return fail(has_row.error());
  if (!*has_row) return std::optional<BlobHash>();
  const std::optional<BlobHash> hash = read_hash(*statement, 0);
  if (!hash) return fail(database_->damaged("a holding has no hash"));
  return hash;
}

Status Index::insert(const work::HoldingRow& row) {
  Result<Statement> statement =
      database_->prepare("INSERT OR REPLACE INTO holdings(" + std::string(kHoldingColumns) +
                         ", saved) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  if (!statement) return fail(statement.error());
  bind_holding(*statement, row);
  return statement->bind(++last_saved_).run();
}

Status Index::add_blob(const BlobRow& blob) {
  Result<Statement> statement = database_->prepare(
      "INSERT INTO blobs(hash, size, published) VALUES(?, ?, 0) ON CONFLICT(hash) DO NOTHING");
  if (!statement) return fail(statement.error());
  return statement->bind(blob.hash).bind(static_cast<std::int64_t>(blob.size_bytes)).run();
}

Result<std::optional<BlobRow>> Index::drop_if_unneeded(const BlobHash& hash) {
  Result<Statement> statement = database_->prepare(
      "DELETE FROM blobs WHERE hash = ? AND published = 0"
      " AND NOT EXISTS(SELECT 1 FROM holdings WHERE holdings.hash = blobs.hash) RETURNING size");
  if (!statement) return fail(statement.error());
  const Result<bool> has_row = statement->bind(hash).step();
  if (!has_row) return fail(has_row.error());
  if (!*has_row) return std::optional<BlobRow>();
  const std::uint64_t size_bytes = static_cast<std::uint64_t>(statement->integer(0));
  // RETURNING gives its rows after the change is made, but the change ends with the statement.
  if (Status ended = statement->run(); !ended) return fail(ended.error());
  return std::optional<BlobRow>({hash, size_bytes});
}

}  // namespace tenzro::store
