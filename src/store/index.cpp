#include "index.hpp"

#include <array>
#include <string>
#include <utility>

#include "tenzro/base/bytes.hpp"

#include "holding_codec.hpp"

namespace tenzro::store {
namespace {

/// The columns of a holding and `saved`, as parameters.
constexpr const char* kValues = "?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15";

}  // namespace

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
      "INSERT INTO blobs(hash, size, published, digest) VALUES(?1, ?2, 1, row_digest(?1, ?2, 1))"
      " ON CONFLICT(hash) DO UPDATE SET published = 1, digest = row_digest(hash, size, 1)");
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
                         ", saved, digest) VALUES(" + kValues + ", row_digest(" + kValues + "))");
  if (!statement) return fail(statement.error());
  bind_holding(*statement, row);
  return statement->bind(++last_saved_).run();
}

Status Index::add_blob(const BlobRow& blob) {
  Result<Statement> statement = database_->prepare(
      "INSERT INTO blobs(hash, size, published, digest) VALUES(?1, ?2, 0, row_digest(?1, ?2, 0))"
      " ON CONFLICT(hash) DO NOTHING");
  if (!statement) return fail(statement.error());
  return statement->bind(blob.hash).bind(static_cast<std::int64_t>(blob.size_bytes)).run();
}

Status Index::adopt(const BlobRow& blob) {
  Result<Statement> wanted =
      database_->prepare("SELECT count(*) FROM (SELECT 1 FROM holdings WHERE hash = ? LIMIT 1)");
  if (!wanted) return fail(wanted.error());
  const Result<bool> has_row = wanted->bind(blob.hash).step();
  if (!has_row) return fail(has_row.error());
  return wanted->integer(0) == 0 ? publish(blob) : add_blob(blob);
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
