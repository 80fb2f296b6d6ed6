#include <algorithm>

#include <nlohmann/json.hpp>

#include "tenzro/base/bytes.hpp"
#include "tenzro/prepare/build_blob.hpp"
#include "tenzro/tensor/safetensors.hpp"

#include "source_address.hpp"

namespace tenzro::prepare {
namespace {

constexpr const char* kIndexFile = "model.safetensors.index.json";

bool has_prefix(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return name.starts_with(prefix); });
}

/// Elements that safetensors knows too are called by its name, so that one path reads both.
work::SourceTensor source_of(const tensor::GgufTensor& from) {
  work::SourceTensor to{
      .type = from.type, .shape = from.shape, .begin = from.begin, .end = from.end};
  switch (from.type) {
    case tensor::GgmlType::f32:
      to.type = tensor::DType::f32;
      break;
    case tensor::GgmlType::f16:
      to.type = tensor::DType::f16;
      break;
    case tensor::GgmlType::bf16:
      to.type = tensor::DType::bf16;
      break;
    case tensor::GgmlType::i32:
      to.type = tensor::DType::i32;
      break;
    case tensor::GgmlType::i64:
      to.type = tensor::DType::i64;
      break;
    default:
      break;
  }
  return to;
}

}  // namespace

Result<work::ScannedIndex> scan_index(const work::ScanIndex& job) {
  const std::string_view text = job.json.text();
  const nlohmann::json document = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  if (!document.is_object()) return fail(ErrorCode::runtime, kIndexFile, "is not a JSON object");
  const auto map = document.find("weight_map");
  if (map == document.end() || !map->is_object()) {
    return fail(ErrorCode::runtime, kIndexFile, "weight_map is missing or not an object");
  }
  work::ScannedIndex scanned;
  for (const auto& [tensor, file] : map->items()) {
    if (!has_prefix(tensor, job.prefixes)) continue;
    if (!file.is_string()) {
      return fail(ErrorCode::runtime, kIndexFile,
                  "the file of tensor '" + echo(tensor) + "' is not a string");
    }
    const auto& name = file.get_ref<const std::string&>();
    if (const Status plain = check_file_name(name); !plain) {
      return fail(ErrorCode::runtime, kIndexFile,
                  "the file of tensor '" + echo(tensor) + "': " + plain.error().detail);
    }
    scanned.files.emplace(tensor, name);
  }
  return scanned;
}

Result<work::ScannedHeader> scan_header(const work::ScanHeader& job) {
  auto header = tensor::parse_safetensors_header(job.json.bytes(), job.file_bytes);
  if (!header) return tl::unexpected<Error>(header.error());
  work::ScannedHeader scanned;
  for (auto& [name, info] : header->tensors) {
    if (!has_prefix(name, job.prefixes)) continue;
    scanned.tensors.emplace(name, work::SourceTensor{.type = info.dtype,
                                                     .shape = std::move(info.shape),
                                                     .begin = info.begin,
                                                     .end = info.end});
  }
  return scanned;
}

Result<work::ScannedGguf> scan_gguf(const work::ScanGguf& job) {
  auto read = tensor::read_gguf_header(job.prefix.bytes(), job.file_bytes);
  if (!read) return fail(read.error());
  work::ScannedGguf scanned;
  if (const auto* wanted = std::get_if<std::uint64_t>(&*read)) {
    scanned.bytes_wanted = *wanted;
    return scanned;
  }
  auto& header = std::get<tensor::GgufHeader>(*read);
  scanned.metadata = std::move(header.metadata);
  for (const auto& [name, tensor] : header.tensors) {
    if (name.starts_with("blk.")) scanned.tensors.emplace(name, source_of(tensor));
  }
  return scanned;
}

}  // namespace tenzro::prepare
