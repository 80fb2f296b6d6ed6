#include <algorithm>

#include "tenzro/base/bytes.hpp"
#include "tenzro/prepare/build_blob.hpp"
#include "tenzro/tensor/safetensors.hpp"

namespace tenzro::prepare {
namespace {

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
    scanned.tensors.emplace(name, source_of(tensor));
  }
  return scanned;
}

}  // namespace tenzro::prepare
