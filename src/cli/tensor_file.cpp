#include "tensor_file.hpp"

#include "tenzro/base/base64.hpp"
#include "tenzro/base/bytes.hpp"

#include "files.hpp"

namespace tenzro::cli {
namespace {

/// As base64 it still fits the node's default body limit.
constexpr std::uint64_t kTensorBytesMax = 47ULL << 20U;

}  // namespace

Outcome<TensorText> read_tensor(const std::string& path, std::uint32_t d_model) {
  const Outcome<std::string> bytes = read_file(path, kTensorBytesMax);
  if (!bytes) return failure(bytes.error());
  const std::uint64_t row_bytes = std::uint64_t{d_model} * sizeof(float);
  if (bytes->size() % row_bytes != 0) {
    return failure(ExitCode::usage, path + ": " + std::to_string(bytes->size()) +
                                        " bytes are not whole rows of " + std::to_string(d_model) +
                                        " f32 values");
  }
  return TensorText{.base64 = base64_encode(as_u8(*bytes)), .rows = bytes->size() / row_bytes};
}

Outcome<void> keep_outputs(const Json& result, const std::string& path) {
  const Json& outputs = member(result, "outputs");
  const std::string base64 = outputs.is_string() ? outputs.get<std::string>() : "";
  std::string bytes(base64_decoded_size(base64), '\0');
  void* const raw = bytes.data();
  const auto decoded = base64_decode(base64, static_cast<std::uint8_t*>(raw));
  if (!decoded || !outputs.is_string()) {
    return failure(ExitCode::refused, "the node's answer has no readable outputs");
  }
  return write_file(path, bytes);
}

}  // namespace tenzro::cli
