#include "tenzro/prepare/build_blob.hpp"

#include <algorithm>
#include <cstring>

#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/wire/gate_blob.hpp"

namespace tenzro::prepare {
namespace {

constexpr std::size_t kRowsPerSlice = 16;

/// A projection as it goes into the blob: its bytes live here or in the source.
struct Encoded {
  compute::MatrixView view;
  BufferRef bytes;
};

tensor::WeightType dense_type(tensor::DType dtype) {
  if (dtype == tensor::DType::f16) return tensor::WeightType::f16;
  if (dtype == tensor::DType::bf16) return tensor::WeightType::bf16;
  return tensor::WeightType::f32;
}

Status check_source(const work::SourceMatrix& source) {
  const bool is_dense = source.dtype == tensor::DType::f32 || source.dtype == tensor::DType::f16 ||
                        source.dtype == tensor::DType::bf16;
  if (!is_dense) {
    return fail(ErrorCode::runtime, "",
                "tensor '" + source.tensor + "' has unsupported dtype " +
                    std::string(name_of(source.dtype)) + " (want F32, F16, or BF16)");
  }
  const std::size_t wanted = std::size_t{source.rows} * source.cols * bytes_of(source.dtype);
  if (source.bytes.size() != wanted) {
    return fail(ErrorCode::runtime, "",
                "tensor '" + source.tensor + "' gave " + std::to_string(source.bytes.size()) +
                    " bytes, expected " + std::to_string(wanted));
  }
  return {};
}

/// What the projection becomes: the wanted type, Q8_0, or its own; or an error under `strict`.
Result<tensor::WeightType> choose_type(const work::SourceMatrix& source,
                                       std::optional<tensor::WeightType> wanted, bool strict) {
  if (!wanted) return dense_type(source.dtype);
  if (source.cols % block_elements(*wanted) == 0) return *wanted;
  if (strict) {
    return fail(ErrorCode::runtime, "",
                "tensor '" + source.tensor + "' has rows of " + std::to_string(source.cols) +
                    ", which do not divide by the " + std::to_string(block_elements(*wanted)) +
                    " of " + std::string(name_of(*wanted)) + " (strict)");
  }
  if (source.cols % block_elements(tensor::WeightType::q8_0) == 0) return tensor::WeightType::q8_0;
  return dense_type(source.dtype);
}

/// Calls body(row) for every row, in slices, and returns the first row for which it said false; or
/// `rows`.
template <typename Body>
std::size_t first_refused(std::size_t rows, compute::Executor& executor, const Body& body) {
  const std::size_t slices = (rows + kRowsPerSlice - 1) / kRowsPerSlice;
  std::vector<std::size_t> refused(slices, rows);
  executor.parallel_for(slices, [&](std::size_t slice) {
    const std::size_t last = std::min(rows, (slice + 1) * kRowsPerSlice);
    for (std::size_t row = slice * kRowsPerSlice; row < last; ++row) {
      if (body(row)) continue;
      refused[slice] = row;
      return;
    }
  });
  return slices == 0 ? rows : *std::min_element(refused.begin(), refused.end());
}

tl::unexpected<Error> non_finite(const work::SourceMatrix& source, std::size_t row) {
  return fail(
      ErrorCode::runtime, "",
      "tensor '" + source.tensor + "' has a non-finite value in row " + std::to_string(row));
}

Result<Encoded> encode(const work::SourceMatrix& source, std::optional<tensor::WeightType> wanted,
                       bool strict, compute::Executor& executor) {
  if (auto status = check_source(source); !status) return tl::unexpected<Error>(status.error());
  const auto type = choose_type(source, wanted, strict);
  if (!type) return tl::unexpected<Error>(type.error());
  const std::size_t source_stride = std::size_t{source.cols} * bytes_of(source.dtype);
  const std::size_t stride = tensor::row_bytes(*type, source.cols);
  Encoded encoded{.view = {.type = *type, .rows = source.rows, .cols = source.cols}};
  if (!tensor::is_quantized(*type)) {
    const std::size_t bad = first_refused(source.rows, executor, [&](std::size_t row) {
      return !tensor::find_defect(*type, source.bytes.bytes().subspan(row * stride, stride))
                  .has_value();
    });
    if (bad < source.rows) return non_finite(source, bad);
    encoded.bytes = source.bytes;
  } else {
    encoded.bytes = BufferRef::allocate(std::size_t{source.rows} * stride);
    const std::span<std::byte> out = encoded.bytes.mutable_bytes();
    const std::size_t bad = first_refused(source.rows, executor, [&](std::size_t row) {
      std::vector<float> values(source.cols);
      tensor::convert_to_f32(
          source.dtype, source.bytes.bytes().subspan(row * source_stride, source_stride), values);
      const std::span<const std::byte> raw = std::as_bytes(std::span<const float>(values));
      if (tensor::find_defect(tensor::WeightType::f32, raw)) return false;
      const std::span<std::byte> row_out = out.subspan(row * stride, stride);
      tensor::encode_row(*type, values, row_out);
      return !tensor::find_defect(*type, row_out).has_value();  // a scale beyond f16
    });
    if (bad < source.rows) return non_finite(source, bad);
  }
  encoded.view.bytes = encoded.bytes.bytes();
  return encoded;
}

BufferRef to_buffer(const std::vector<std::byte>& bytes) {
  return BufferRef::copy_of(bytes);
}

}  // namespace

Result<work::BuiltExpertBlob> build_expert_blob(const work::BuildExpertBlob& job,
                                                compute::Executor& executor) {
  work::BuiltExpertBlob built;
  compute::ExpertView view{.spec = job.spec};
  Encoded gate;
  if (job.gate) {
    auto encoded = encode(*job.gate, job.gate_quant, job.strict, executor);
    if (!encoded) return tl::unexpected<Error>(encoded.error());
    gate = std::move(*encoded);
    view.gate = gate.view;
    built.gate_type = gate.view.type;
  }
  const auto up = encode(job.up, job.up_quant, job.strict, executor);
  if (!up) return tl::unexpected<Error>(up.error());
  const auto down = encode(job.down, job.down_quant, job.strict, executor);
  if (!down) return tl::unexpected<Error>(down.error());
  view.up = up->view;
  view.down = down->view;
  built.up_type = view.up.type;
  built.down_type = view.down.type;
  built.blob = to_buffer(wire::make_expert_blob(view));
  return built;
}

Result<work::BuiltGateBlob> build_gate_blob(const work::BuildGateBlob& job) {
  compute::SerialExecutor serial;
  const auto weight = encode(job.weight, std::nullopt, true, serial);
  if (!weight) return tl::unexpected<Error>(weight.error());
  wire::GateBlob gate;
  gate.spec = job.spec;
  gate.num_experts = job.weight.rows;
  gate.d_model = job.weight.cols;
  gate.router = weight->view;
  if (job.bias) {
    if (auto status = check_source(*job.bias); !status)
      return tl::unexpected<Error>(status.error());
    gate.bias.resize(job.bias->cols);
    tensor::convert_to_f32(job.bias->dtype, job.bias->bytes.bytes(), gate.bias);
    const std::span<const std::byte> raw = std::as_bytes(std::span<const float>(gate.bias));
    if (tensor::find_defect(tensor::WeightType::f32, raw)) return non_finite(*job.bias, 0);
  }
  return work::BuiltGateBlob{to_buffer(wire::make_gate_blob(gate))};
}

}  // namespace tenzro::prepare
