#include "trace.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>

#include "tenzro/tensor/safetensors.hpp"

#include "files.hpp"

namespace tenzro::cli {
namespace {

constexpr std::uint64_t kTraceBytesMax = 256ULL << 20U;
constexpr std::string_view kInput = ".moe_input";
constexpr std::string_view kLayers = ".layers.";

template <typename T>
std::optional<std::vector<T>> values_of(const tensor::SafetensorsHeader& header,
                                        const std::string& file, const std::string& name,
                                        tensor::DType dtype) {
  const tensor::TensorInfo* info = header.find(name);
  if (info == nullptr || info->dtype != dtype || info->shape.size() != 2) return std::nullopt;
  std::vector<T> values(info->bytes() / sizeof(T));
  std::memcpy(values.data(), file.data() + info->begin, info->bytes());
  return values;
}

/// "prompt0.layers.3.moe_input" -> ("prompt0", 3)
std::optional<TracedPass> pass_of(const std::string& name) {
  const std::size_t layers = name.find(kLayers);
  if (!name.ends_with(kInput) || layers == std::string::npos) return std::nullopt;
  TracedPass pass{.prompt = name.substr(0, layers)};
  const char* first = name.data() + layers + kLayers.size();
  const char* last = name.data() + name.size() - kInput.size();
  const auto [end, error] = std::from_chars(first, last, pass.layer);
  if (error != std::errc{} || end != last) return std::nullopt;
  return pass;
}

std::string incomplete(const std::string& path, const std::string& stem) {
  return path + ": the tensors of '" + stem + "' are incomplete or of odd shapes";
}

}  // namespace

Outcome<std::vector<TracedPass>> read_trace(const std::string& path) {
  const Outcome<std::string> file = read_file(path, kTraceBytesMax);
  if (!file) return failure(file.error());
  const auto header = tensor::parse_safetensors(std::as_bytes(std::span(*file)));
  if (!header) return failure(ExitCode::usage, path + ": " + header.error().message());
  std::vector<TracedPass> passes;
  for (const auto& [name, info] : header->tensors) {
    std::optional<TracedPass> pass = pass_of(name);
    if (!pass) continue;
    const std::string stem = name.substr(0, name.size() - kInput.size());
    const std::string output_name = stem + ".moe_output";
    const std::string ids_name = stem + ".topk_ids";
    auto input = values_of<float>(*header, *file, name, tensor::DType::f32);
    auto output = values_of<float>(*header, *file, output_name, tensor::DType::f32);
    auto ids = values_of<std::int32_t>(*header, *file, ids_name, tensor::DType::i32);
    if (!input || !output || !ids || input->size() != output->size() || info.shape[0] == 0 ||
        ids->size() % info.shape[0] != 0) {
      return failure(ExitCode::usage, incomplete(path, stem));
    }
    pass->tokens = static_cast<std::uint32_t>(info.shape[0]);
    pass->d_model = static_cast<std::uint32_t>(info.shape[1]);
    pass->top_k = static_cast<std::uint32_t>(ids->size() / info.shape[0]);
    pass->input = std::move(*input);
    pass->output = std::move(*output);
    pass->expert_ids = std::move(*ids);
    passes.push_back(std::move(*pass));
  }
  if (passes.empty()) return failure(ExitCode::usage, path + ": holds no traced layer");
  std::sort(passes.begin(), passes.end(), [](const TracedPass& a, const TracedPass& b) {
    return std::tie(a.layer, a.prompt) < std::tie(b.layer, b.prompt);
  });
  return passes;
}

}  // namespace tenzro::cli
