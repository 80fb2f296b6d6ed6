#include "unit/prepare/source_file.hpp"

#include "tenzro/base/bytes.hpp"
#include "tenzro/prepare/build_blob.hpp"
#include "tenzro/tensor/safetensors.hpp"

#include "support/tensor_table.hpp"

namespace tenzro::testing {
namespace {

std::vector<std::byte> written(const FileTensors& tensors) {
  std::vector<tensor::TensorToWrite> list;
  for (const auto& [name, one] : tensors) list.push_back({name, one.dtype, one.shape, one.bytes});
  return tensor::write_safetensors(list, {});
}

}  // namespace

SourceFile::SourceFile(std::vector<std::byte> safetensors) : bytes_(std::move(safetensors)) {
  scan();
}

SourceFile::SourceFile(const FileTensors& tensors) : SourceFile(written(tensors)) {}

SourceFile SourceFile::of_gguf(const std::string& file) {
  SourceFile source;
  const auto bytes = std::as_bytes(std::span(file));
  source.bytes_.assign(bytes.begin(), bytes.end());
  auto scanned = prepare::scan_gguf({BufferRef::copy_of(bytes), bytes.size()});
  if (!scanned) stop(scanned.error().message());
  source.tensors_ = std::move(scanned->tensors);
  source.metadata_ = std::move(scanned->metadata);
  return source;
}

void SourceFile::scan() {
  const std::uint64_t length = load_u64_le(bytes_.data());
  const auto header = prepare::scan_header(
      {BufferRef::copy_of(std::span(bytes_).subspan(8, length)), bytes_.size(), {""}});
  if (!header) stop(header.error().message());
  tensors_ = header->tensors;
}

prepare::FindTensor SourceFile::finder() const {
  return [this](const std::string& name) -> const work::SourceTensor* {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  };
}

BufferRef SourceFile::read(std::uint64_t begin, std::uint64_t end) const {
  return BufferRef::copy_of(std::span(bytes_).subspan(begin, end - begin));
}

Result<work::BuiltExpertBlob> SourceFile::expert(
    const prepare::Checkpoint& checkpoint, LayerIndex layer, ExpertIndex expert,
    const std::function<void(work::BuildExpertBlob&)>& change) const {
  auto plan = prepare::plan_expert(checkpoint, layer, expert, finder());
  if (!plan) return fail(plan.error());
  for (std::size_t i = 0; i < plan->reads.size(); ++i) {
    plan->job.parts[i] = read(plan->reads[i].begin, plan->reads[i].end);
  }
  if (change) change(plan->job);
  compute::SerialExecutor executor;
  return prepare::build_expert_blob(plan->job, executor, tensor::RowEncoder());
}

Result<work::BuiltGateBlob> SourceFile::gate(const prepare::Checkpoint& checkpoint,
                                             LayerIndex layer) const {
  auto plan = prepare::plan_gate(checkpoint, layer, finder());
  if (!plan) return fail(plan.error());
  for (std::size_t i = 0; i < plan->reads.size(); ++i) {
    plan->job.parts[i] = read(plan->reads[i].begin, plan->reads[i].end);
  }
  return prepare::build_gate_blob(plan->job);
}

prepare::Checkpoint checkpoint_of(const std::string& config_json) {
  auto checkpoint = prepare::parse_checkpoint_config(config_json);
  if (!checkpoint) stop(checkpoint.error().message());
  return std::move(*checkpoint);
}

}  // namespace tenzro::testing
