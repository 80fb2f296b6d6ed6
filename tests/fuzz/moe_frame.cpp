// Frames of tenzro/moe: refused, or read into one request that can be answered within a frame.
#include "tenzro/wire/moe_frame.hpp"

#include <cstdint>
#include <span>

#include "tenzro/base/assert.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/work/bodies.hpp"

#include "support/random_expert.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tenzro;
  static const std::unique_ptr<compute::Backend> backend = *kernels::make_cpu_backend({});
  static compute::SerialExecutor executor;
  static const crypto::KeyPair key = crypto::KeyPair::from_seed(crypto::Seed{1});
  const work::JobContext context{*backend, executor, key};
  const BufferRef raw = BufferRef::copy_of(std::as_bytes(std::span(data, size)));
  static_cast<void>(work::read_frame({raw, true}, context));
  // The same bytes as the body of a good frame.
  const auto frame = wire::make_moe_frame(raw);
  if (!frame) return 0;
  const auto read = work::read_frame({testing::joined(*frame), true}, context);
  TENZRO_ASSERT(read.has_value());
  TENZRO_ASSERT(read->exchange->size() == 1);
  if (read->exchange->take_call(0)) {
    read->exchange->set_outcome(0, fail(ErrorCode::runtime, "", "no"));
  }
  const auto written = work::write_frame({read->exchange}, context);
  TENZRO_ASSERT(written.has_value());
  TENZRO_ASSERT(wire::moe_frame_body(testing::joined(written->frame)).has_value());
  return 0;
}
