#pragma once
/// \file
/// Database and Statement: SQLite with Results instead of codes.
///
/// Values are always bound, never pasted into SQL. Thread: one at a time (the library's own locks
/// are off).
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tenzro/base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace tenzro::store {

class Database;

/// One prepared statement: bind in order of the question marks, then step.
class Statement {
 public:
  Statement& bind(std::int64_t value);
  Statement& bind(std::string_view text);
  Statement& bind(std::span<const std::uint8_t> blob);
  Statement& bind_null();

  /// True where there is a row to read. Error: as Database::error.
  [[nodiscard]] Result<bool> step();
  /// For a statement that gives no row.
  [[nodiscard]] Status run();

  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::string_view text(int column) const;
  [[nodiscard]] std::span<const std::uint8_t> blob(int column) const;

 private:
  friend class Database;

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };

  Statement& note_bind(int code);

  Statement(Database& database, sqlite3_stmt* statement)
      : database_(&database), statement_(statement) {}

  Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int next_parameter_ = 1;
  int bind_code_ = 0;  ///< of the first bind that failed; step() tells it
};

class Database {
 public:
  /// Makes the file where it is missing.
  [[nodiscard]] static Result<std::unique_ptr<Database>> open(const std::string& path);

  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Statements without parameters and rows; several, with semicolons between.
  [[nodiscard]] Status execute(const char* sql);
  [[nodiscard]] Result<Statement> prepare(std::string_view sql);
  /// The first column of the first row of a query without parameters.
  [[nodiscard]] Result<std::string> ask(std::string_view sql);
  [[nodiscard]] Result<std::int64_t> ask_integer(std::string_view sql);

  /// What an SQLite result code means for us: no_space (with the numbers), busy, or io; says so
  /// where the file is damaged.
  [[nodiscard]] Error error(int code) const;
  /// The error that says the file is not (any more) what this program wrote.
  [[nodiscard]] Error damaged(std::string_view why) const;
  /// Whether it is of a file that cannot be read, and not of a disk that failed.
  [[nodiscard]] static bool tells_damage(const Error& error);
  /// The error that says the file should be there.
  [[nodiscard]] Error absent(std::string_view why) const;

 private:
  friend class Statement;

  struct Close {
    void operator()(sqlite3* database) const;
  };

  Database(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}

  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
};

/// A write transaction that is undone unless it is committed.
class Transaction {
 public:
  [[nodiscard]] static Result<Transaction> begin(Database& database);

  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}

  Transaction& operator=(Transaction&&) = delete;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  /// Durable when it returns without an error.
  [[nodiscard]] Status commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}

  Database* database_;
};

}  // namespace tenzro::store
