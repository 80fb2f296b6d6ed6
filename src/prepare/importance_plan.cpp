#include "layer_plan.hpp"
#include "matrix_finder.hpp"

namespace tenzro::prepare {
namespace {

using work::SourceImportance;

/// The first of `names` of which the file has something; else the first.
std::string present(const std::string& block, std::initializer_list<std::string_view> names,
                    const FindTensor& find) {
  for (const std::string_view name : names) {
    std::string full = block + std::string(name) + ".weight";
    if (find(full + ".in_sum2") != nullptr) return full;
  }
  return block + std::string(*names.begin()) + ".weight";
}

struct Slab {
  std::uint32_t count = 1;
  std::uint32_t index = 0;
};

/// How many slabs the tensor says it has: a writer of GGUF drops outer dimensions of 1.
std::uint32_t stated(const Slab& slab, const std::string& name, const FindTensor& find) {
  const work::SourceTensor* tensor = find(name);
  const bool is_dropped = slab.count == 1 && tensor != nullptr && tensor->shape.size() == 1;
  return is_dropped ? 0 : slab.count;
}

Status plan(const std::string& name, std::uint32_t cols, const Slab& slab, const FindTensor& find,
            std::vector<Read>& reads, std::optional<SourceImportance>& to) {
  MatrixFinder finder(find, reads);
  const std::string sums_name = name + ".in_sum2";
  const std::string count_name = name + ".counts";
  auto sums = finder.vector(sums_name, cols, stated(slab, sums_name, find), slab.index);
  if (!sums) return fail(sums.error());
  auto count = finder.vector(count_name, 1, stated(slab, count_name, find), slab.index);
  if (!count) return fail(count.error());
  to = SourceImportance{std::move(*sums), std::move(*count)};
  return {};
}

}  // namespace

Status plan_importance(const Checkpoint& checkpoint, LayerIndex layer, ExpertIndex expert,
                       const FindTensor& find, ExpertPlan& to) {
  const std::string block = "blk." + std::to_string(layer) + ".";
  const bool is_shared = expert == checkpoint.num_experts;
  const std::string in =
      is_shared ? present(block, {"ffn_up_shexp", "ffn_gate_shexp"}, find)
                : present(block, {"ffn_up_exps", "ffn_gate_exps", "ffn_gate_up_exps"}, find);
  const std::string down = block + (is_shared ? "ffn_down_shexp" : "ffn_down_exps") + ".weight";
  const Slab slab = is_shared ? Slab{} : Slab{checkpoint.num_experts, expert};
  if (auto status = plan(in, to.job.up.cols, slab, find, to.reads, to.job.importance_in); !status) {
    return status;
  }
  auto status = plan(down, to.job.down.cols, slab, find, to.reads, to.job.importance_down);
  to.job.parts.resize(to.reads.size());
  return status;
}

}  // namespace tenzro::prepare
