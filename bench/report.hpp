#pragma once
/// \file
/// What every bench program writes: rows of one case each, as JSON or for a person.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tenzro::bench {

struct Row {
  std::string name;  ///< "case"
  std::string path;  ///< "ours", or the peer or ceiling it is held against
  std::size_t threads = 1;
  double value = 0;  ///< the median
  std::string unit;
  double p10 = 0;
  double p90 = 0;
  std::size_t n = 0;  ///< samples
  std::optional<double> target;
};

/// A row of `samples` (at least one): median, p10, p90.
[[nodiscard]] Row make_row(std::string name, std::string path, std::size_t threads,
                           std::string unit, std::vector<double> samples,
                           std::optional<double> target = std::nullopt);
void print(const Row& row);
/// False where the file cannot be written.
[[nodiscard]] bool write_json(const std::string& path, const std::vector<Row>& rows);

}  // namespace tenzro::bench
