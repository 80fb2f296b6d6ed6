#include "sqlite.hpp"

#include <sqlite3.h>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"

#include "os_error.hpp"
#include "row_digest.hpp"

namespace tenzro::store {
namespace {

constexpr std::string_view kDamaged = "is damaged";

/// How long a statement waits for another program that looks into the file.
constexpr int kBusyTimeoutMs = 5000;

/// The primary code of an extended one.
int primary(int code) {
  return code & 0xFF;
}

}  // namespace

void Database::Close::operator()(sqlite3* database) const {
  sqlite3_close_v2(database);
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);  // repeats the error of the last step, which step() has told
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  std::unique_ptr<Database> database(new Database(path, raw));
  if (code != SQLITE_OK) return fail(database->error(code));
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  if (const int added = add_row_digest(raw); added != SQLITE_OK) {
    return fail(database->error(added));
  }
  return database;
}

Error Database::damaged(std::string_view why) const {
  return {ErrorCode::io, echo(path_),
          std::string(kDamaged) + " (" + std::string(why) +
              "); restore it from a backup, or move it and the blobs away to start without them"};
}

bool Database::tells_damage(const Error& error) {
  return error.detail.starts_with(kDamaged);
}

Error Database::absent(std::string_view why) const {
  return {ErrorCode::not_found, echo(path_),
          "is missing (" + std::string(why) +
              "); restore it from a backup, or move the blobs away to start without them"};
}

Error Database::error(int code) const {
  const std::string text =
      database_ != nullptr ? sqlite3_errmsg(database_.get()) : sqlite3_errstr(code);
  // The memory that readers share is a file: on a full disk it cannot be made to its size.
  if (primary(code) == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE) {
    const std::string free = free_space_text(path_);
    return {ErrorCode::no_space, echo(path_), text + (free.empty() ? "" : " (" + free + ")")};
  }
  switch (primary(code)) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::busy, echo(path_), "is held by another program: " + text};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return damaged(text);
    default:
      return {ErrorCode::io, echo(path_), text};
  }
}

Status Database::execute(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail(error(code));
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return fail(error(code));
  return Statement(*this, raw);
}

Result<std::string> Database::ask(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return fail(statement.error());
  const Result<bool> has_row = statement->step();
  if (!has_row) return fail(has_row.error());
  return *has_row ? std::string(statement->text(0)) : std::string();
}

Result<std::int64_t> Database::ask_integer(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return fail(statement.error());
  const Result<bool> has_row = statement->step();
  if (!has_row) return fail(has_row.error());
  return *has_row ? statement->integer(0) : 0;
}

Statement& Statement::note_bind(int code) {
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
  return *this;
}

Statement& Statement::bind(std::int64_t value) {
  return note_bind(sqlite3_bind_int64(statement_.get(), next_parameter_++, value));
}

Statement& Statement::bind(std::string_view text) {
  // Static: every caller keeps the text until it has stepped. Empty text still needs an address,
  // else it is NULL.
  const char* data = text.empty() ? "" : text.data();
  return note_bind(sqlite3_bind_text64(statement_.get(), next_parameter_++, data, text.size(),
                                       SQLITE_STATIC, SQLITE_UTF8));
}

Statement& Statement::bind(std::span<const std::uint8_t> blob) {
  return note_bind(sqlite3_bind_blob64(statement_.get(), next_parameter_++, blob.data(),
                                       blob.size(), SQLITE_STATIC));
}

Statement& Statement::bind_null() {
  return note_bind(sqlite3_bind_null(statement_.get(), next_parameter_++));
}

Result<bool> Statement::step() {
  if (bind_code_ != SQLITE_OK) return fail(database_->error(bind_code_));
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return fail(database_->error(code));
}

Status Statement::run() {
  const Result<bool> has_row = step();
  if (!has_row) return fail(has_row.error());
  return {};
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view Statement::text(int column) const {
  const void* data = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr
             ? std::string_view()
             : std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

std::span<const std::uint8_t> Statement::blob(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return {static_cast<const std::uint8_t*>(data), static_cast<std::size_t>(size)};
}

Result<Transaction> Transaction::begin(Database& database) {
  if (Status begun = database.execute("BEGIN IMMEDIATE"); !begun) return fail(begun.error());
  return Transaction(database);
}

Transaction::~Transaction() {
  // Some errors have rolled back by themselves; then there is nothing left to undo.
  if (database_ != nullptr) static_cast<void>(database_->execute("ROLLBACK"));
}

Status Transaction::commit() {
  TENZRO_ASSERT(database_ != nullptr);
  if (Status committed = database_->execute("COMMIT"); !committed) return committed;
  database_ = nullptr;
  return {};
}

}  // namespace tenzro::store
