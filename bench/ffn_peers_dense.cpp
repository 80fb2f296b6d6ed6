#include "tenzro/kernels/cpu.hpp"

#include "ffn_peers.hpp"

#ifdef TENZRO_BENCH_HAS_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
/// Of the OpenMP that oneDNN may have been built with.
extern "C" __attribute__((weak)) void omp_set_num_threads(int count);
#endif
#ifdef TENZRO_BENCH_HAS_EIGEN
extern "C" void tz_bench_eigen(const float* x, const float* weights, float* out, long rows, long k,
                               long outputs);
#endif

namespace tenzro::bench {
namespace {

struct Buffers {
  std::vector<float> x;
  std::vector<float> wide;  ///< gate and up, one after the other
  std::vector<float> tall;
  std::vector<float> hidden;
  std::vector<float> out;
};

std::shared_ptr<Buffers> make_buffers(Shape shape, std::size_t tokens) {
  auto buffers = std::make_shared<Buffers>();
  buffers->x = make_rows(tokens, shape.d_model);
  buffers->wide = make_rows(2 * std::size_t{shape.d_ff}, shape.d_model);
  buffers->tall = make_rows(shape.d_model, shape.d_ff);
  buffers->hidden.resize(2 * tokens * shape.d_ff);
  buffers->out.resize(tokens * shape.d_model);
  return buffers;
}

#ifdef TENZRO_BENCH_HAS_ONEDNN
/// out = x · Wᵀ with the weights in the layout that the library asks for.
class DnnlProduct {
 public:
  DnnlProduct(float* x, float* weights, float* out, dnnl::memory::dim rows, dnnl::memory::dim k,
              dnnl::memory::dim outputs)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    const auto f32 = memory::data_type::f32;
    const memory::desc x_desc({rows, k}, f32, memory::format_tag::ab);
    const memory::desc any({k, outputs}, f32, memory::format_tag::any);
    const memory::desc given({k, outputs}, f32, memory::format_tag::ba);
    const memory::desc out_desc({rows, outputs}, f32, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc made(engine_, x_desc, any, out_desc);
#else
    const dnnl::matmul::primitive_desc made(dnnl::matmul::desc(x_desc, any, out_desc), engine_);
#endif
    product_ = dnnl::matmul(made);
    memory packed(made.weights_desc(), engine_);
    memory plain(given, engine_, weights);
    dnnl::reorder(plain, packed).execute(stream_, plain, packed);
    stream_.wait();
    arguments_ = {{DNNL_ARG_SRC, memory(x_desc, engine_, x)},
                  {DNNL_ARG_WEIGHTS, packed},
                  {DNNL_ARG_DST, memory(out_desc, engine_, out)}};
  }

  void run() {
    product_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul product_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

DensePeer onednn(Shape shape, std::size_t tokens) {
  if (omp_set_num_threads != nullptr) omp_set_num_threads(1);
  const auto buffers = make_buffers(shape, tokens);
  const auto rows = static_cast<dnnl::memory::dim>(tokens);
  auto wide =
      std::make_shared<DnnlProduct>(buffers->x.data(), buffers->wide.data(), buffers->hidden.data(),
                                    rows, shape.d_model, 2 * dnnl::memory::dim{shape.d_ff});
  auto tall = std::make_shared<DnnlProduct>(buffers->hidden.data(), buffers->tall.data(),
                                            buffers->out.data(), rows, shape.d_ff, shape.d_model);
  return {"oneDNN, packed", [buffers, wide, tall] {
            wide->run();
            tall->run();
          }};
}
#endif

#ifdef TENZRO_BENCH_HAS_EIGEN
DensePeer eigen(Shape shape, std::size_t tokens) {
  const auto buffers = make_buffers(shape, tokens);
  return {"Eigen", [buffers, shape, tokens] {
            const auto rows = static_cast<long>(tokens);
            const long model = shape.d_model;
            const long ff = shape.d_ff;
            tz_bench_eigen(buffers->x.data(), buffers->wide.data(), buffers->hidden.data(), rows,
                           model, 2 * ff);
            tz_bench_eigen(buffers->hidden.data(), buffers->tall.data(), buffers->out.data(), rows,
                           ff, model);
          }};
}
#endif

}  // namespace

std::vector<DensePeer> dense_peers([[maybe_unused]] Shape shape,
                                   [[maybe_unused]] std::size_t tokens) {
  std::vector<DensePeer> peers;
#ifdef TENZRO_BENCH_HAS_ONEDNN
  peers.push_back(onednn(shape, tokens));
#endif
#ifdef TENZRO_BENCH_HAS_EIGEN
  if (kernels::is_available(kernels::Isa::avx512)) peers.push_back(eigen(shape, tokens));
#endif
  return peers;
}

}  // namespace tenzro::bench
