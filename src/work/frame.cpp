#include "tenzro/base/assert.hpp"
#include "tenzro/wire/moe_frame.hpp"
#include "tenzro/work/bodies.hpp"

namespace tenzro::work {
namespace {

/// Values of one frame: far above any execution of a few thousand tokens, and bounds the memory.
constexpr std::size_t kFrameValuesMax = 200'000;

}  // namespace

Result<FrameRead> read_frame(const ReadFrame& job, const JobContext& context) {
  const auto body = wire::moe_frame_body(job.frame);
  if (!body) return fail(body.error());
  const rpc::ParseOptions options{
      .dialect = rpc::Dialect::moe,
      .values_max = kFrameValuesMax,
      .base64 = context.base64,
      .scopes = {.read = true, .execute = job.may_execute, .admin = false}};
  const BufferRef text =
      job.frame.slice(wire::kMoeLengthBytes, job.frame.size() - wire::kMoeLengthBytes);
  return FrameRead{std::make_shared<rpc::Exchange>(rpc::Exchange::parse(text, options))};
}

Result<FrameWritten> write_frame(const WriteFrame& job, const JobContext& context) {
  auto frame = wire::make_moe_frame(job.exchange->encode(context.base64));
  if (!frame) {
    // The caller is told so; what it asked for is too large for this protocol.
    const Error error{ErrorCode::runtime, "moe/execute",
                      "the response is a " + frame.error().message()};
    frame = wire::make_moe_frame(BufferRef::copy_of(rpc::error_reply(error)));
  }
  TENZRO_ASSERT(frame.has_value());
  return FrameWritten{std::move(*frame)};
}

}  // namespace tenzro::work
