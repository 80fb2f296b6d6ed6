#include "ffn_peers.hpp"

#ifndef TENZRO_BENCH_HAS_GGML

namespace tenzro::bench {

std::unique_ptr<GgmlExperts> make_ggml_experts(const Weights& /*weights*/, std::size_t /*experts*/,
                                               GgmlLayout /*layout*/) {
  return nullptr;
}

}  // namespace tenzro::bench

#else

#include <algorithm>
#include <cstring>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include "ceilings.hpp"

namespace tenzro::bench {
namespace {

struct FreeContext {
  void operator()(ggml_context* context) const { ggml_free(context); }
};

using Context = std::unique_ptr<ggml_context, FreeContext>;

struct FreeBuffer {
  void operator()(ggml_backend_buffer* buffer) const { ggml_backend_buffer_free(buffer); }
};

using Buffer = std::unique_ptr<ggml_backend_buffer, FreeBuffer>;

ggml_type type_of(tensor::WeightType type) {
  switch (type) {
    case tensor::WeightType::f32:
      return GGML_TYPE_F32;
    case tensor::WeightType::f16:
      return GGML_TYPE_F16;
    case tensor::WeightType::bf16:
      return GGML_TYPE_BF16;
    case tensor::WeightType::q8_0:
      return GGML_TYPE_Q8_0;
    case tensor::WeightType::q4_k:
      return GGML_TYPE_Q4_K;
    case tensor::WeightType::q6_k:
      return GGML_TYPE_Q6_K;
  }
  return GGML_TYPE_COUNT;
}

/// The buffer type that repacks, or null.
ggml_backend_buffer_type_t repacking() {
  ggml_backend_reg_t cpu = ggml_backend_cpu_reg();
  ggml_backend_dev_t device = ggml_backend_reg_dev_get(cpu, 0);
  auto get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(
      ggml_backend_reg_get_proc_address(cpu, "ggml_backend_dev_get_extra_bufts"));
  if (get == nullptr) return nullptr;
  for (ggml_backend_buffer_type_t* type = get(device); type != nullptr && *type != nullptr; ++type)
    if (std::strcmp(ggml_backend_buft_name(*type), "CPU_REPACK") == 0) return *type;
  return nullptr;
}

class Experts final : public GgmlExperts {
 public:
  Experts(const Weights& weights, std::size_t experts) : weights_(&weights), experts_(experts) {
    context_.reset(
        ggml_init({.mem_size = std::size_t{1} << 20U, .mem_buffer = nullptr, .no_alloc = true}));
    const auto model = static_cast<std::int64_t>(weights.shape.d_model);
    const auto ff = static_cast<std::int64_t>(weights.shape.d_ff);
    const auto count = static_cast<std::int64_t>(experts);
    const ggml_type wide = type_of(weights.quantisation.type);
    gate_ = ggml_new_tensor_3d(context_.get(), wide, model, ff, count);
    up_ = ggml_new_tensor_3d(context_.get(), wide, model, ff, count);
    down_ =
        ggml_new_tensor_3d(context_.get(), type_of(weights.quantisation.down), ff, model, count);
  }

  bool load(GgmlLayout layout) {
    if (layout == GgmlLayout::plain) return load_plain();
    ggml_backend_buffer_type_t type = repacking();
    if (type == nullptr) return false;
    buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), type));
    if (buffer_ == nullptr) return false;
    for (ggml_tensor* tensor : {gate_, up_, down_}) {
      if (tensor->extra == nullptr) return false;  // a type it does not repack
      const std::vector<std::byte> all = repeated(tensor);
      ggml_backend_tensor_set(tensor, all.data(), 0, all.size());
    }
    return true;
  }

  std::function<void()> call_for(std::size_t tokens) override {
    auto run = std::make_shared<Run>();
    run->context.reset(
        ggml_init({.mem_size = (std::size_t{64} << 20U) + tokens * weights_->shape.d_model * 32,
                   .mem_buffer = nullptr,
                   .no_alloc = false}));
    ggml_context* context = run->context.get();
    const auto rows = static_cast<std::int64_t>(tokens);
    ggml_tensor* x = ggml_new_tensor_3d(context, GGML_TYPE_F32, weights_->shape.d_model, 1, rows);
    const auto values = make_rows(tokens, weights_->shape.d_model);
    std::memcpy(x->data, values.data(), values.size() * sizeof(float));
    run->ids = ggml_new_tensor_2d(context, GGML_TYPE_I32, 1, rows);
    ggml_tensor* gate = ggml_mul_mat_id(context, gate_, x, run->ids);
    ggml_tensor* up = ggml_mul_mat_id(context, up_, x, run->ids);
    ggml_tensor* hidden = ggml_swiglu_split(context, gate, up);
    ggml_tensor* out = ggml_mul_mat_id(context, down_, hidden, run->ids);
    run->graph = ggml_new_graph(context);
    ggml_build_forward_expand(run->graph, out);
    run->plan = ggml_graph_plan(run->graph, 1, nullptr);
    run->work.resize(run->plan.work_size);
    run->plan.work_data = run->work.data();
    return [this, run, tokens] {
      auto* ids = static_cast<std::int32_t*>(run->ids->data);
      std::fill_n(ids, tokens, static_cast<std::int32_t>(turn_++ % experts_));
      ggml_graph_compute(run->graph, &run->plan);
    };
  }

 private:
  struct Run {
    Context context;
    ggml_tensor* ids = nullptr;
    ggml_cgraph* graph = nullptr;
    ggml_cplan plan{};
    std::vector<std::uint8_t> work;
  };

  [[nodiscard]] std::vector<std::byte> repeated(const ggml_tensor* tensor) const {
    const std::vector<std::byte>& one = tensor == down_ ? weights_->down : weights_->gate;
    std::vector<std::byte> all(one.size() * experts_);
    for (std::size_t i = 0; i < experts_; ++i)
      std::memcpy(all.data() + i * one.size(), one.data(), one.size());
    return all;
  }

  bool load_plain() {
    for (ggml_tensor* tensor : {gate_, up_, down_}) {
      const std::vector<std::byte>& one = tensor == down_ ? weights_->down : weights_->gate;
      plain_.push_back(std::make_unique<ColdMemory>(one.size() * experts_));
      if (plain_.back()->data() == nullptr) return false;
      tensor->data = const_cast<std::uint8_t*>(plain_.back()->data());
      for (std::size_t i = 0; i < experts_; ++i)
        std::memcpy(static_cast<std::byte*>(tensor->data) + i * one.size(), one.data(), one.size());
    }
    return true;
  }

  const Weights* weights_;
  std::size_t experts_;
  std::size_t turn_ = 0;
  Context context_;
  Buffer buffer_;
  std::vector<std::unique_ptr<ColdMemory>> plain_;
  ggml_tensor* gate_ = nullptr;
  ggml_tensor* up_ = nullptr;
  ggml_tensor* down_ = nullptr;
};

}  // namespace

std::unique_ptr<GgmlExperts> make_ggml_experts(const Weights& weights, std::size_t experts,
                                               GgmlLayout layout) {
  ggml_cpu_init();
  auto made = std::make_unique<Experts>(weights, experts);
  if (!made->load(layout)) return nullptr;
  return made;
}

}  // namespace tenzro::bench

#endif
