#pragma once
/// \file
/// Experts run elsewhere: one request to one holder for experts of one layer, as encoded by the
/// router and checked when the reply comes.
///
/// The call is a value that encoding and verifying share: what was asked for is what the reply is
/// held against, not what the reply says of itself.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/time.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/receipts/carrier.hpp"

namespace tenzro::work {

/// How the call travels: each transport has its own frame and its own receipt. `exec` is
/// tenzro/exec/1 (receipt v2, many experts), `moe` a tenzro/moe frame and `http` a JSON-RPC POST
/// (receipt v1, one expert a call).
enum class Transport : std::uint8_t { exec, moe, http };

using Nonce = std::array<std::uint8_t, 16>;

/// Immutable once made.
struct RemoteCall {
  struct Batch {
    ExpertIndex expert = 0;
    /// Rows of `input`, ascending; also the token indices that receipts name.
    std::vector<std::uint32_t> rows;
    /// What the holder's record declares it to hold; zeros where it declares nothing. A receipt
    /// for another blob is refused.
    BlobHash blob{};
  };

  Transport transport = Transport::exec;
  LayerKey layer;
  compute::Profile profile = compute::Profile::exact;
  receipts::CarrierKind carrier = receipts::CarrierKind::dense;
  std::uint32_t width = 0;
  BufferRef input;             ///< [*, width] f32, not rounded
  std::vector<Batch> batches;  ///< by expert, ascending; exactly one for moe and http
  Nonce nonce{};
  EndpointId router{};
  /// The key that must have signed, and the provider it belongs to. For http the key is unknown
  /// before the reply: zeros.
  EndpointId holder{};
  ProviderAddress provider{};
};

/// Body: wire format of the transport. Error: invalid_params where it does not fit one message.
struct EncodeCall {
  std::shared_ptr<const RemoteCall> call;
  /// How long the holder may take; it gives up after that.
  Duration budget{0};
};

struct EncodedCall {
  std::vector<BufferRef> request;
  /// The rows as they travel; VerifyReply needs them again.
  BufferRef carrier;
};

/// Body: decodes the reply, holds it against the call (lengths, ids, rows, finite values, receipt,
/// signature). Errors: busy (the holder says so: not a failure), runtime (the holder answered with
/// an error, the text is its own), forbidden (the reply is not what was asked for, or its receipt
/// is bad: the holder lied or is broken).
struct VerifyReply {
  std::shared_ptr<const RemoteCall> call;
  BufferRef reply;
  /// EncodedCall::carrier; empty: it is made again.
  BufferRef carrier;
};

}  // namespace tenzro::work
