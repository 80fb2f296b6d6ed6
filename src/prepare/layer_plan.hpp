#pragma once
/// \file
/// Which bytes of a checkpoint make which blob: a layer's gate and experts as byte ranges of its
/// tensors, with the job that turns those bytes into the blob.
///
/// How a job uses it: scan names with `scan_prefixes`; where an index tells names before headers
/// do, `wanted_tensors` says which tensors (so which files) matter; once their headers are known, a
/// plan is made for the gate and for each expert. A plan's read i fills `job.parts[i]`; when all
/// are there the job can run. One expert of a slab is one contiguous range. A packed weight and its
/// scale come together: a weight whose scale is missing is refused by name. Shapes are compared
/// with the numbers of config.json. An error's `where` is the tensor at fault, its code runtime.
/// Pure.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tenzro/work/source.hpp"

#include "checkpoint.hpp"

namespace tenzro::prepare {

/// Bytes [begin, end) of the file that holds `tensor`.
struct Read {
  std::string tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct ExpertPlan {
  std::vector<Read> reads;
  work::BuildExpertBlob job;
};

struct GatePlan {
  std::vector<Read> reads;
  work::BuildGateBlob job;
};

using HasTensor = std::function<bool(const std::string&)>;
/// Null where there is no such tensor.
using FindTensor = std::function<const work::SourceTensor*(const std::string&)>;

/// What the names of the layer's tensors may begin with, final dot included.
[[nodiscard]] std::vector<std::string> scan_prefixes(const Checkpoint& checkpoint,
                                                     LayerIndex layer);

/// Every tensor that the gate and these experts are made of, values and scales.
[[nodiscard]] Result<std::vector<std::string>> wanted_tensors(const Checkpoint& checkpoint,
                                                              LayerIndex layer,
                                                              std::span<const ExpertIndex> experts,
                                                              bool include_gate,
                                                              const HasTensor& has);

[[nodiscard]] Result<ExpertPlan> plan_expert(const Checkpoint& checkpoint, LayerIndex layer,
                                             ExpertIndex expert, const FindTensor& find);
/// Adds to a plan how much its columns count, from the tensors of an imatrix file
/// ("blk.L.NAME.in_sum2" and ".counts"), which `find` knows beside the checkpoint's. Refuses a file
/// without the expert's.
[[nodiscard]] Status plan_importance(const Checkpoint& checkpoint, LayerIndex layer,
                                     ExpertIndex expert, const FindTensor& find, ExpertPlan& to);
[[nodiscard]] Result<GatePlan> plan_gate(const Checkpoint& checkpoint, LayerIndex layer,
                                         const FindTensor& find);

}  // namespace tenzro::prepare
