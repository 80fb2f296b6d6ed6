#include "job_log.hpp"

#include <cstdio>
#include <utility>

#include "tenzro/base/bytes.hpp"

#include "holding_codec.hpp"

namespace tenzro::store {
namespace {

constexpr std::int64_t kVersion = 1;

constexpr const char* kSettings =
    "PRAGMA journal_mode=WAL;"
    "PRAGMA synchronous=NORMAL;"
    "PRAGMA trusted_schema=OFF;"
    "PRAGMA cell_size_check=ON;"
    "PRAGMA temp_store=MEMORY;";

constexpr const char* kTables =
    "CREATE TABLE jobs("
    "  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, record TEXT NOT NULL);"
    "CREATE TABLE parts("
    "  job TEXT NOT NULL, name TEXT NOT NULL, record TEXT NOT NULL, hash BLOB NOT NULL,"
    "  size INTEGER NOT NULL, PRIMARY KEY(job, name)) WITHOUT ROWID;"
    "PRAGMA user_version=1;";

constexpr const char* kCheckPages =
    "SELECT coalesce(min(quick_check), 'ok') FROM pragma_quick_check WHERE quick_check <> 'ok'";

/// The log of the writes goes with its file.
void move_aside(const std::string& path) {
  for (const char* ending : {"", "-wal", "-shm"}) {
    const std::string name = path + ending;
    static_cast<void>(std::rename(name.c_str(), (path + ".damaged" + ending).c_str()));
  }
}

}  // namespace

Result<std::unique_ptr<JobLog>> JobLog::open_file(const std::string& path) {
  Result<std::unique_ptr<Database>> database = Database::open(path);
  if (!database) return fail(database.error());
  std::unique_ptr<JobLog> log(new JobLog(std::move(*database)));
  Database& file = *log->database_;
  // One process has the data directory: then nothing that readers would share has to be made, for
  // which a full disk may have no room.
  if (Status alone = file.execute("PRAGMA locking_mode=EXCLUSIVE"); !alone)
    return fail(alone.error());
  const Result<std::int64_t> version = file.ask_integer("PRAGMA user_version");
  if (!version) return fail(version.error());
  const Result<std::int64_t> tables = file.ask_integer("SELECT count(*) FROM sqlite_schema");
  if (!tables) return fail(tables.error());
  if (Status set = file.execute(kSettings); !set) return fail(set.error());
  if (*version == 0 && *tables == 0) {
    if (Status made = file.execute(kTables); !made) return fail(made.error());
    return log;
  }
  if (*version != kVersion) return fail(file.damaged("its schema is not known"));
  const Result<std::string> pages = file.ask(kCheckPages);
  if (!pages) return fail(pages.error());
  if (*pages != "ok") return fail(file.damaged(echo(*pages)));
  return log;
}

Result<std::unique_ptr<JobLog>> JobLog::open(const std::string& path, std::string& warning) {
  Result<std::unique_ptr<JobLog>> log = open_file(path);
  if (log) {
    const auto jobs = (*log)->jobs();
    if (jobs) return log;
    log = fail(jobs.error());
  }
  // A disk that fails for a moment has damaged nothing.
  if (!Database::tells_damage(log.error())) return log;
  warning = "the log of prepare jobs '" + echo(path) +
            "' could not be read and was moved aside; a new one has begun";
  log = fail(ErrorCode::io, "", "");  // closes the file
  move_aside(path);
  return open_file(path);
}

Result<std::vector<work::LoggedPart>> JobLog::parts(const std::string& job) {
  Result<Statement> statement =
      database_->prepare("SELECT name, record, hash, size FROM parts WHERE job = ? ORDER BY name");
  if (!statement) return fail(statement.error());
  statement->bind(job);
  std::vector<work::LoggedPart> parts;
  for (;;) {
    const Result<bool> has_row = statement->step();
    if (!has_row) return fail(has_row.error());
    if (!*has_row) return parts;
    const std::optional<BlobHash> hash = read_hash(*statement, 2);
    if (!hash || statement->integer(3) < 0) return fail(database_->damaged("a part is impossible"));
    parts.push_back({.name = std::string(statement->text(0)),
                     .record = std::string(statement->text(1)),
                     .hash = *hash,
                     .size_bytes = static_cast<std::uint64_t>(statement->integer(3))});
  }
}

Result<std::vector<work::LoggedJob>> JobLog::jobs() {
  Result<Statement> statement = database_->prepare("SELECT id, record FROM jobs ORDER BY number");
  if (!statement) return fail(statement.error());
  std::vector<work::LoggedJob> jobs;
  for (;;) {
    const Result<bool> has_row = statement->step();
    if (!has_row) return fail(has_row.error());
    if (!*has_row) return jobs;
    work::LoggedJob job{.id = std::string(statement->text(0)),
                        .record = std::string(statement->text(1)),
                        .parts = {}};
    Result<std::vector<work::LoggedPart>> parts = this->parts(job.id);
    if (!parts) return fail(parts.error());
    job.parts = std::move(*parts);
    jobs.push_back(std::move(job));
  }
}

Status JobLog::log(const work::LogJob& job) {
  Result<Statement> statement = database_->prepare(
      "INSERT INTO jobs(id, record) VALUES(?, ?)"
      " ON CONFLICT(id) DO UPDATE SET record = excluded.record");
  if (!statement) return fail(statement.error());
  return statement->bind(job.id).bind(job.record).run();
}

Status JobLog::add(const work::JobPart& part, const BlobHash& hash, std::uint64_t size_bytes) {
  Result<Statement> statement = database_->prepare(
      "INSERT OR REPLACE INTO parts(job, name, record, hash, size) VALUES(?, ?, ?, ?, ?)");
  if (!statement) return fail(statement.error());
  return statement->bind(part.job)
      .bind(part.name)
      .bind(part.record)
      .bind(hash)
      .bind(static_cast<std::int64_t>(size_bytes))
      .run();
}

Status JobLog::forget(const std::string& id) {
  Result<Transaction> transaction = Transaction::begin(*database_);
  if (!transaction) return fail(transaction.error());
  for (const char* sql : {"DELETE FROM parts WHERE job = ?", "DELETE FROM jobs WHERE id = ?"}) {
    Result<Statement> statement = database_->prepare(sql);
    if (!statement) return fail(statement.error());
    if (Status deleted = statement->bind(id).run(); !deleted) return deleted;
  }
  return transaction->commit();
}

}  // namespace tenzro::store
