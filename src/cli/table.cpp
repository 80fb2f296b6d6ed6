#include "table.hpp"

#include <algorithm>

#include "tenzro/base/assert.hpp"

namespace tenzro::cli {
namespace {

constexpr std::size_t kGap = 2;

/// Code points: every byte of UTF-8 but the continuations.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

bool is_numeric(const std::string& cell) {
  if (cell == "-") return true;
  return !cell.empty() && cell.find_first_not_of("0123456789.+-e") == std::string::npos &&
         cell.find_first_of("0123456789") != std::string::npos;
}

void append_padded(std::string& line, const std::string& cell, std::size_t width, bool is_right) {
  const std::string padding(width - width_of(cell), ' ');
  line += is_right ? padding + cell : cell + padding;
}

void end_line(std::string& line, std::string& out) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + "\n";
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  TENZRO_ASSERT(row.size() == headers_.size());
  rows_.push_back(std::move(row));
}

std::string Table::render() const {
  std::vector<std::size_t> widths;
  std::vector<bool> is_right;
  for (std::size_t column = 0; column < headers_.size(); ++column) {
    std::size_t width = width_of(headers_[column]);
    bool all_numeric = !rows_.empty();
    for (const auto& row : rows_) {
      width = std::max(width, width_of(row[column]));
      all_numeric = all_numeric && is_numeric(row[column]);
    }
    widths.push_back(width);
    is_right.push_back(all_numeric);
  }

  std::string out;
  const auto append_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      if (column != 0) line.append(kGap, ' ');
      append_padded(line, row[column], widths[column], is_right[column]);
    }
    end_line(line, out);
  };
  append_row(headers_);
  for (const auto& row : rows_) append_row(row);
  return out;
}

void Facts::add(std::string name, std::string value) {
  facts_.emplace_back(std::move(name), std::move(value));
}

std::string Facts::render() const {
  std::size_t width = 0;
  for (const auto& fact : facts_) width = std::max(width, width_of(fact.first));
  std::string out;
  for (const auto& [name, value] : facts_) {
    std::string line;
    append_padded(line, name, width + kGap, false);
    line += value;
    end_line(line, out);
  }
  return out;
}

}  // namespace tenzro::cli
