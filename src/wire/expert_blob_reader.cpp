#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "tenzro/wire/expert_blob.hpp"

#include "checking_source.hpp"
#include "ffn_spec.hpp"
#include "tensor_reader.hpp"

namespace tenzro::wire {
namespace {

using compute::MatrixView;

/// Read at a time where its values are checked.
constexpr std::size_t kStreamedReadBytes = std::size_t{1} << 20U;

constexpr std::string_view kInward = "[d_ff, d_model]";
constexpr std::string_view kOutward = "[d_model, d_ff]";

Status read_projections(const TensorReader& reader, compute::ExpertView& view) {
  const auto read = [&](std::string_view name, const WantedShape& wanted, MatrixView& out) {
    Result<MatrixView> matrix = reader.matrix(name, wanted, Storage::dense_or_quantized);
    if (!matrix) return Status(tl::unexpect, std::move(matrix.error()));
    out = *matrix;
    return Status{};
  };
  // The first projection there is fixes d_ff and d_model, the others must fit.
  WantedShape inward{.text = kInward, .rows = std::nullopt, .cols = std::nullopt};
  if (view.spec.activation != compute::Activation::relu2) {
    view.gate.emplace();
    if (Status s = read("gate_proj.weight", inward, *view.gate); !s) return s;
    inward.rows = view.gate->rows;
    inward.cols = view.gate->cols;
  } else {
    // Weights that would never be used: whoever made the blob meant another activation.
    for (const std::string_view name : {"gate_proj.weight", "gate_proj.bias"}) {
      if (!reader.has(name)) continue;
      return fail(ErrorCode::runtime, "",
                  "tensor '" + std::string(name) + "' has no place in an expert of relu2");
    }
  }
  if (Status s = read("up_proj.weight", inward, view.up); !s) return s;
  const WantedShape outward{.text = kOutward, .rows = view.up.cols, .cols = view.up.rows};
  return read("down_proj.weight", outward, view.down);
}

/// Values of the bias `name`, none where the blob has no such tensor.
using BiasOf = std::function<Result<std::vector<float>>(std::string_view name, std::uint32_t size)>;

Status read_biases(const BiasOf& bias_of, ExpertBlob& blob) {
  struct Bias {
    std::string_view name;
    std::uint32_t size;
  };

  const std::array<Bias, 3> biases{Bias{"gate_proj.bias", blob.view.d_ff()},
                                   Bias{"up_proj.bias", blob.view.d_ff()},
                                   Bias{"down_proj.bias", blob.view.d_model()}};
  for (std::size_t i = 0; i < biases.size(); ++i) {
    if (i == 0 && !blob.view.gate) continue;
    Result<std::vector<float>> values = bias_of(biases[i].name, biases[i].size);
    if (!values) return fail(std::move(values.error()));
    blob.biases[i] = std::move(*values);
  }
  blob.view.gate_bias = blob.biases[0];
  blob.view.up_bias = blob.biases[1];
  blob.view.down_bias = blob.biases[2];
  return {};
}

Status read_spec(const TensorReader& reader, compute::ExpertView& view) {
  const std::string* text = reader.metadata(kFfnKey);
  if (text == nullptr) return {};
  const Result<compute::FfnSpec> spec = parse_ffn_spec(*text);
  if (!spec) return fail(spec.error());
  view.spec = *spec;
  return {};
}

Result<TensorReader> read_header(const compute::WeightSource& source,
                                 std::uint64_t header_bytes_max) {
  const std::uint64_t size = source.size_bytes();
  // Long enough to tell a web page from a blob.
  std::vector<std::byte> prefix(static_cast<std::size_t>(std::min<std::uint64_t>(size, 512)));
  if (Status read = source.read(0, prefix); !read) return fail(read.error());
  const Result<std::uint64_t> length = tensor::safetensors_header_length(prefix, size);
  if (!length) return fail(length.error());
  if (*length > header_bytes_max) {
    return fail(ErrorCode::runtime, "",
                "a header of " + std::to_string(*length) + " bytes is more than the " +
                    std::to_string(header_bytes_max) + " of an expert that is read by slices");
  }
  std::vector<std::byte> header(static_cast<std::size_t>(*length));
  if (Status read = source.read(sizeof(std::uint64_t), header); !read) return fail(read.error());
  return TensorReader::open_header(header, size);
}

/// Memory of reading a blob by slices.
struct SliceMemory {
  std::uint64_t biases = 0;  ///< as they are kept
  /// The longest that is read at once beside them: a row, or a bias as it is stored.
  std::uint64_t longest = 0;
  std::string_view name;  ///< of what is longest

  void count(std::string_view of, std::uint64_t bytes) {
    if (bytes <= longest) return;
    longest = bytes;
    name = of;
  }
};

SliceMemory slice_memory(const TensorReader& reader, const compute::ExpertView& view) {
  SliceMemory memory;
  const auto row = [&memory](std::string_view name, const MatrixView& matrix) {
    memory.count(name, tensor::row_bytes(matrix.type, matrix.cols));
  };
  const auto bias = [&](std::string_view name, std::uint64_t size) {
    if (!reader.has(name)) return;
    memory.biases += size * sizeof(float);
    memory.count(name, size * sizeof(float));
  };
  if (view.gate) {
    row("gate_proj.weight", *view.gate);
    bias("gate_proj.bias", view.d_ff());
  }
  row("up_proj.weight", view.up);
  row("down_proj.weight", view.down);
  bias("up_proj.bias", view.d_ff());
  bias("down_proj.bias", view.d_model());
  return memory;
}

Status check_memory(const SliceMemory& memory, std::uint64_t bytes_max) {
  if (memory.biases + memory.longest <= bytes_max) return {};
  return fail(ErrorCode::no_space, "weights",
              "an expert read by slices may have " + std::to_string(bytes_max) +
                  " bytes of memory: " + std::to_string(memory.longest) + " for what '" +
                  std::string(memory.name) + "' has at least to be read at once and " +
                  std::to_string(memory.biases) + " of biases are more");
}

/// The rows of one matrix, some at a time; one fits `bytes_max`.
Status check_values(const compute::WeightSource& source, std::string_view name,
                    const MatrixView& matrix, std::uint64_t begin, std::uint64_t bytes_max) {
  const std::size_t row_bytes = tensor::row_bytes(matrix.type, matrix.cols);
  const auto most =
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes_max, kStreamedReadBytes));
  const std::size_t step = std::max<std::size_t>(most / row_bytes, 1);
  std::vector<std::byte> bytes(std::min<std::size_t>(step, matrix.rows) * row_bytes);
  for (std::size_t first = 0; first < matrix.rows; first += step) {
    const std::size_t rows = std::min<std::size_t>(step, matrix.rows - first);
    const std::span<std::byte> some = std::span(bytes).first(rows * row_bytes);
    if (Status read = source.read(begin + first * row_bytes, some); !read) return read;
    const MatrixView slice{.type = matrix.type,
                           .rows = static_cast<std::uint32_t>(rows),
                           .cols = matrix.cols,
                           .bytes = some};
    Status checked = check_rows(name, slice, static_cast<std::uint32_t>(first));
    if (!checked) return checked;
  }
  return {};
}

Status check_all_values(const compute::ExpertView& view, std::uint64_t bytes_max) {
  const compute::WeightStream& stream = *view.stream;
  const auto check = [&](std::string_view name, const MatrixView& matrix, std::uint64_t begin) {
    return check_values(*stream.source, name, matrix, begin, bytes_max);
  };
  if (view.gate) {
    Status gate = check("gate_proj.weight", *view.gate, stream.gate_begin);
    if (!gate) return gate;
  }
  if (Status up = check("up_proj.weight", view.up, stream.up_begin); !up) return up;
  return check("down_proj.weight", view.down, stream.down_begin);
}

}  // namespace

Result<ExpertBlob> parse_expert_blob(std::span<const std::byte> blob) {
  const Result<TensorReader> reader = TensorReader::open(blob);
  if (!reader) return fail(reader.error());
  ExpertBlob expert;
  if (Status status = read_spec(*reader, expert.view); !status) return fail(status.error());
  if (Status status = read_projections(*reader, expert.view); !status) return fail(status.error());
  const auto bias_of = [&reader](std::string_view name, std::uint32_t size) {
    return reader->optional_vector(name, size);
  };
  if (Status status = read_biases(bias_of, expert); !status) return fail(status.error());
  return expert;
}

Result<ExpertBlob> open_expert_blob(std::shared_ptr<const compute::WeightSource> source,
                                    Values values, std::uint64_t memory_bytes_max,
                                    std::uint64_t header_bytes_max) {
  const Result<TensorReader> reader = read_header(*source, header_bytes_max);
  if (!reader) return fail(reader.error());
  ExpertBlob expert;
  if (Status status = read_spec(*reader, expert.view); !status) return fail(status.error());
  if (Status status = read_projections(*reader, expert.view); !status) return fail(status.error());
  const SliceMemory memory = slice_memory(*reader, expert.view);
  if (Status fits = check_memory(memory, memory_bytes_max); !fits) return fail(fits.error());
  const auto bias_of = [&](std::string_view name,
                           std::uint32_t size) -> Result<std::vector<float>> {
    if (!reader->has(name)) return std::vector<float>{};
    const tensor::TensorInfo& info = *reader->find(name).value();
    if (info.bytes() > std::uint64_t{size} * sizeof(float))
      return wrong_shape(name, info.shape, '[' + std::to_string(size) + ']');
    std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes()));
    if (Status read = source->read(info.begin, bytes); !read) return fail(read.error());
    return widened(name, info, size, bytes);
  };
  if (Status status = read_biases(bias_of, expert); !status) return fail(status.error());
  const auto begin_of = [&reader](std::string_view name) {
    return reader->has(name) ? reader->find(name).value()->begin : 0;
  };
  expert.view.stream = compute::WeightStream{.source = std::move(source),
                                             .gate_begin = begin_of("gate_proj.weight"),
                                             .up_begin = begin_of("up_proj.weight"),
                                             .down_begin = begin_of("down_proj.weight"),
                                             .memory_bytes_max = memory_bytes_max};
  if (values == Values::known) return expert;
  if (values == Values::as_viewed) {
    expert.view.stream->source = checking_source(expert.view);
    return expert;
  }
  if (Status status = check_all_values(expert.view, memory_bytes_max - memory.biases); !status)
    return fail(status.error());
  return expert;
}

std::optional<tensor::WeightType> coarsest_quant(const compute::ExpertView& view) {
  using tensor::WeightType;
  // Coarsest first.
  for (const WeightType type : {WeightType::q4_k, WeightType::q6_k, WeightType::q8_0}) {
    const bool is_present =
        (view.gate && view.gate->type == type) || view.up.type == type || view.down.type == type;
    if (is_present) return type;
  }
  return std::nullopt;
}

}  // namespace tenzro::wire
