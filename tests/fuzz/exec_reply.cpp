// Replies to an execution, over every transport: bytes alone never make one that is believed.
#include <cstdint>
#include <span>

#include "tenzro/base/assert.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/work/bodies.hpp"

#include "support/random_expert.hpp"

namespace {

using namespace tenzro;

struct Router {
  std::unique_ptr<compute::Backend> backend = *kernels::make_cpu_backend({});
  crypto::KeyPair key = crypto::KeyPair::from_seed(crypto::Seed{1});

  [[nodiscard]] std::shared_ptr<const work::RemoteCall> call(work::Transport transport) const {
    Prng prng(3);
    auto call = std::make_shared<work::RemoteCall>();
    call->transport = transport;
    call->layer = {"m", 1};
    call->width = 32;
    call->input = testing::random_rows(prng, 3, 32);
    call->batches = {{2, {0, 2}, {}}};
    call->holder = EndpointId{1};
    call->provider = ProviderAddress{1};
    return call;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Router router;
  static compute::SerialExecutor executor;
  const BufferRef reply = BufferRef::copy_of(std::as_bytes(std::span(data, size)));
  for (const auto transport :
       {work::Transport::exec, work::Transport::moe, work::Transport::http}) {
    const auto verified = work::verify_reply({router.call(transport), reply, {}},
                                             {*router.backend, executor, router.key});
    TENZRO_ASSERT(!verified.has_value());
    TENZRO_ASSERT(verified.error().code != ErrorCode::internal);
  }
  return 0;
}
