#pragma once
/// \file
/// The compute seam: what runs matrix work, behind at most eight virtuals.
///
/// Rules
///  - What an expert takes is known before it is uploaded: narrow ones may become many times what
///    they were, and whoever keeps a budget must know that first.
///  - Weights are uploaded (and repacked) once, at load; a run never copies them. A resident object
///  frees
///    its memory when its last handle goes, and is immutable in between, so any thread may run over
///    it.
///  - Profile `exact`: a result row is a function of that input row and the weights alone. It does
///  not depend
///    on the batch, the ISA, the number of threads, the backend or the holder. Order of operations:
///      quantised weights: activations become Q8_0 blocks of 32 along K (d = amax/127; q = round
///      half away
///        of x·(1/d); the stored scale is d rounded to f16, or d itself where that overflows); then
///        block by block in ascending k, acc = fma(float(isum), dw·dx, acc), one f32 accumulator an
///        output:
///          Q8_0: isum = Σ qw·qx;  dw = d.      (32 terms, exact in i32)
///          Q4_K: isum = Σ qw·qx;  dw = d·sc.   Then acc = fma(float(Σ qx), -(dmin·m)·dx, acc).
///          Q6_K: isum = s0·Σ₁₆ (qw-32)·qx + s1·Σ₁₆ (qw-32)·qx;  dw = d.
///        (products d·sc and dmin·m are single f32 roundings; dw·dx likewise; the sign is exact)
///      dense weights: acc = fma(w[k], x[k], acc) for k ascending, in f32, weights widened exactly.
///      Bias: one rounded add after the last k. Activation: the exp and tanh of
///      kernels/cpu/activation, whose operations are the same sequence of IEEE f32 operations on
///      every ISA. The intermediate row is quantised again (or not) by the type of the down
///      projection.
///  - Profile `fast`: any order, bf16 tiles allowed, within the bound of the tests' table.
///  - An expert whose view names a stream is packed slice by slice, as it is read. One that does
///  not fit `memory_bytes_max` is not packed: its resident form is the scratch of a run, and every
///  run reads the weights by slices of output rows, first of gate and up, then of down. A slice is
///  whole outputs, so the order of operations above, and the bits, are those of the whole. Runs of
///  one such expert wait for each other.
///  - Non-finite values propagate as IEEE says; the caller checks outputs.
///  - A job whose shapes do not match its weights is a bug of the caller (TENZRO_ASSERT).
/// Thread: `run_*` may be called from several threads at once; they use the executor they are
/// given.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/result.hpp"
#include "tenzro/compute/weights.hpp"
#include "tenzro/tensor/row_encoder.hpp"

namespace tenzro::compute {

enum class Profile : std::uint8_t { fast = 0, exact = 1 };
[[nodiscard]] std::string_view name_of(Profile profile);

/// Splits work over the node's worker pool. Implemented by `exec`; a serial one serves tests.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Calls body(i) once for every i in [0, count), on any threads, and returns when all have
  /// returned.
  virtual void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) = 0;
  /// How many calls can run at once; at least 1.
  [[nodiscard]] virtual std::size_t concurrency() const = 0;
};

/// Runs everything on the calling thread.
class SerialExecutor final : public Executor {
 public:
  void parallel_for(std::size_t count, const std::function<void(std::size_t)>& body) override;

  [[nodiscard]] std::size_t concurrency() const override { return 1; }
};

/// Weights of one expert, in the backend's own layout.
class ResidentExpert {
 public:
  virtual ~ResidentExpert() = default;
  /// Bytes really held, repacked layout and padding included.
  [[nodiscard]] virtual std::size_t bytes() const = 0;

  /// Runs read its weights from where they are.
  [[nodiscard]] virtual bool is_streamed() const { return false; }

  /// False: a run found weights that could not be read.
  [[nodiscard]] virtual bool is_readable() const { return true; }
};

/// One matrix (router, latent projection, shared gate), in the backend's own layout.
class ResidentMatrix {
 public:
  virtual ~ResidentMatrix() = default;
  [[nodiscard]] virtual std::size_t bytes() const = 0;
};

/// One expert's share of a layer.
struct ExpertBatch {
  const ResidentExpert* expert = nullptr;
  /// Indices into the job's input rows; may repeat, may be in any order.
  std::span<const std::uint32_t> rows;
  /// [rows.size(), d_model] f32, row-major; 64-byte alignment not required.
  float* out = nullptr;
};

/// Every expert of a layer that this node runs for one request, as one job.
struct ExpertsJob {
  Profile profile = Profile::exact;
  /// [input_rows, d_model] f32, row-major.
  const float* input = nullptr;
  std::uint32_t input_rows = 0;
  std::uint32_t d_model = 0;
  std::span<const ExpertBatch> batches;
};

/// out[r] = input[r] · Wᵀ (+ bias).
struct MatmulJob {
  Profile profile = Profile::exact;
  const ResidentMatrix* matrix = nullptr;
  const float* input = nullptr;  ///< [input_rows, cols]
  std::uint32_t input_rows = 0;
  float* out = nullptr;  ///< [input_rows, rows]
};

/// What an expert takes, as its types and shapes have it.
struct ExpertMemory {
  /// Where its bytes are in memory: `bytes()` of what is made of it. Also where it is packed as it
  /// is read.
  std::uint64_t held_bytes = 0;
  /// The least `memory_bytes_max` that its stream can be uploaded with, to be packed or to be run
  /// by slices.
  std::uint64_t stream_bytes_min = 0;
};

struct Device {
  std::string name;
  std::uint64_t memory_bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// What `tenzro_moeExpertStatus` reports: "cpu", "cpu-avx2", "cpu-avx512", "cpu-avx512-vnni",
  /// "cuda", ...
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::vector<Device> devices() const = 0;
  /// What an expert of these types and shapes would take, before anything is made of it. Error:
  /// runtime, for one that cannot be uploaded.
  [[nodiscard]] virtual Result<ExpertMemory> memory_of(const ExpertView& expert) const = 0;

  /// Whether it can be uploaded, and run in every profile.
  [[nodiscard]] bool supports(const ExpertView& expert) const {
    return memory_of(expert).has_value();
  }

  /// Error: runtime; no_space, also where not even slices fit a stream's `memory_bytes_max`.
  [[nodiscard]] virtual Result<std::shared_ptr<const ResidentExpert>> upload_expert(
      const ExpertView& expert, Executor& executor) = 0;
  [[nodiscard]] virtual Result<std::shared_ptr<const ResidentMatrix>> upload_matrix(
      const MatrixView& matrix, std::span<const float> bias, Executor& executor) = 0;
  /// Error: io, busy, where the weights of a streamed expert cannot be read.
  [[nodiscard]] virtual Status run_experts(const ExpertsJob& job, Executor& executor) = 0;
  [[nodiscard]] virtual Status run_matmul(const MatmulJob& job, Executor& executor) = 0;
  /// What quantises rows of checkpoints, with the reference's bytes. The default is the scalar one.
  [[nodiscard]] virtual const tensor::RowEncoder& row_encoder() const;
};

/// Backends in order of preference. Filled by `daemon`; there are no self-registering globals.
class Registry {
 public:
  void add(std::unique_ptr<Backend> backend);
  /// `choice` is "auto" (the first), or the start of a backend's name ("cpu", "cuda", "wgpu" for
  /// "wgsl"). Error: infrastructure, naming what is there.
  [[nodiscard]] Result<Backend*> choose(std::string_view choice) const;

 private:
  std::vector<std::unique_ptr<Backend>> backends_;
};

}  // namespace tenzro::compute
