#pragma once
/// \file
/// Our side of tenzro/moe in this process: calls of the tiny layer as a router encodes them, and
/// replies as it checks them.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tenzro/crypto/address.hpp"
#include "tenzro/kernels/cpu.hpp"
#include "tenzro/work/bodies.hpp"

#include "support/traced_layer.hpp"

namespace tenzro::testing {

inline constexpr int kRows = 3;

inline std::string frame_of(std::uint32_t length, const std::string& body) {
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(length >> shift);
  return frame + body;
}

/// Frames and replies of ours, in this process.
class OurSide {
 public:
  OurSide() : backend_(std::move(*kernels::make_cpu_backend({}))) {}

  /// A call of `expert` with the rows of execute_params, to be served by the node with that key.
  [[nodiscard]] std::shared_ptr<work::RemoteCall> call(int expert, const EndpointId& holder,
                                                       receipts::CarrierKind carrier) const {
    auto call = std::make_shared<work::RemoteCall>();
    call->transport = work::Transport::moe;
    call->layer = {"tiny", 0};
    call->carrier = carrier;
    call->width = kTinyWidth;
    call->input = BufferRef::copy_of(bytes_of_base64(tiny_rows(kRows)));
    call->batches.push_back({static_cast<ExpertIndex>(expert), {0, 1, 2}, {}});
    call->holder = holder;
    call->provider = crypto::address_of(holder);
    return call;
  }

  [[nodiscard]] work::EncodedCall encode(const std::shared_ptr<work::RemoteCall>& call) {
    auto encoded = work::encode_call({.call = call, .budget = std::chrono::seconds(30)}, context());
    EXPECT_TRUE(encoded) << encoded.error().message();
    return encoded ? *encoded : work::EncodedCall{};
  }

  /// The base64 of the outputs, the receipt being right; or the error.
  [[nodiscard]] Result<std::string> verified(const std::shared_ptr<work::RemoteCall>& call,
                                             const BufferRef& reply) {
    auto verified = work::verify_reply({.call = call, .reply = reply, .carrier = {}}, context());
    if (!verified) return fail(verified.error());
    return base64_of(std::string(verified->outputs.at(0).values.text()));
  }

  crypto::KeyPair key = crypto::KeyPair::from_seed({4, 5, 6});

 private:
  work::JobContext context() { return {*backend_, executor_, key}; }

  std::unique_ptr<compute::Backend> backend_;
  compute::SerialExecutor executor_;
};

}  // namespace tenzro::testing
