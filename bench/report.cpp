#include "report.hpp"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

namespace tenzro::bench {
namespace {

double percentile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

}  // namespace

Row make_row(std::string name, std::string path, std::size_t threads, std::string unit,
             std::vector<double> samples, std::optional<double> target) {
  std::sort(samples.begin(), samples.end());
  return {.name = std::move(name),
          .path = std::move(path),
          .threads = threads,
          .value = percentile(samples, 0.5),
          .unit = std::move(unit),
          .p10 = percentile(samples, 0.1),
          .p90 = percentile(samples, 0.9),
          .n = samples.size(),
          .target = target};
}

void print(const Row& row) {
  std::printf("%-34s %-20s %zu thread  %10.4g %-8s  p10 %10.4g  p90 %10.4g  n %zu",
              row.name.c_str(), row.path.c_str(), row.threads, row.value, row.unit.c_str(), row.p10,
              row.p90, row.n);
  if (row.target) std::printf("  target %.4g", *row.target);
  std::printf("\n");
  std::fflush(stdout);
}

bool write_json(const std::string& path, const std::vector<Row>& rows) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    all.push_back(
        {{"case", row.name},
         {"path", row.path},
         {"threads", row.threads},
         {"value", row.value},
         {"unit", row.unit},
         {"p10", row.p10},
         {"p90", row.p90},
         {"n", row.n},
         {"target", row.target ? nlohmann::ordered_json(*row.target) : nlohmann::ordered_json()}});
  }
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const std::string text = all.dump(1) + "\n";
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && is_written;
}

}  // namespace tenzro::bench
