#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"
#include "tenzro/prepare/build_blob.hpp"

namespace tenzro::prepare {

Result<work::ScannedIndex> scan_index(const work::ScanIndex& job) {
  const std::string_view text = job.json.text();
  const nlohmann::json document = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  constexpr const char* kFile = "model.safetensors.index.json";
  if (!document.is_object()) return fail(ErrorCode::runtime, kFile, "is not a JSON object");
  const auto map = document.find("weight_map");
  if (map == document.end() || !map->is_object()) {
    return fail(ErrorCode::runtime, kFile, "weight_map is missing or not an object");
  }
  work::ScannedIndex scanned;
  for (const auto& [tensor, file] : map->items()) {
    if (!tensor.starts_with(job.prefix)) continue;
    if (!file.is_string()) {
      return fail(ErrorCode::runtime, kFile,
                  "the file of tensor '" + echo(tensor) + "' is not a string");
    }
    scanned.files.emplace(tensor, file.get<std::string>());
  }
  return scanned;
}

Result<work::ScannedHeader> scan_header(const work::ScanHeader& job) {
  auto header = tensor::parse_safetensors_header(job.json.bytes(), job.file_bytes);
  if (!header) return tl::unexpected<Error>(header.error());
  work::ScannedHeader scanned;
  for (auto& [name, info] : header->tensors) {
    if (name.starts_with(job.prefix)) scanned.tensors.emplace(name, std::move(info));
  }
  return scanned;
}

}  // namespace tenzro::prepare
