#pragma once
/// \file
/// Table: rows of text in aligned columns.
///
/// A column whose cells are all numbers (or `-`) stands to the right, any other to the left. Width
/// is counted in code points. No trailing blanks.
#include <string>
#include <vector>

namespace tenzro::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> headers) : headers_(std::move(headers)) {}

  /// Requires one cell for each header.
  void add(std::vector<std::string> row);

  [[nodiscard]] bool empty() const { return rows_.empty(); }

  /// Header line, then the rows; every line ends in a line break.
  [[nodiscard]] std::string render() const;

 private:
  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;
};

/// Names and values, one a line: `name   value`.
class Facts {
 public:
  void add(std::string name, std::string value);
  [[nodiscard]] std::string render() const;

 private:
  std::vector<std::pair<std::string, std::string>> facts_;
};

}  // namespace tenzro::cli
