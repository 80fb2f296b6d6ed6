#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"
#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/wire/gate_blob.hpp"
#include "tenzro/work/bodies.hpp"

namespace tenzro::work {
namespace {

/// The blob's hash, or `io` where it is not the expected one.
Result<BlobHash> check_hash(const BufferRef& blob, const std::optional<BlobHash>& expected) {
  const BlobHash hash = crypto::blake3(as_u8(blob.bytes()));
  if (expected && *expected != hash) {
    return fail(ErrorCode::io, "blob " + to_hex(*expected),
                "hash mismatch: the bytes hash to " + to_hex(hash));
  }
  return hash;
}

Status upload_into(std::shared_ptr<const compute::ResidentMatrix>& to,
                   const std::optional<compute::MatrixView>& matrix, Gate& gate,
                   const JobContext& context) {
  if (!matrix) return {};
  auto uploaded = context.backend.upload_matrix(*matrix, {}, context.executor);
  if (!uploaded) return tl::unexpected<Error>(uploaded.error());
  gate.bytes += (*uploaded)->bytes();
  to = std::move(*uploaded);
  return {};
}

}  // namespace

Result<AdmittedExpert> admit_expert(const AdmitExpert& job, const JobContext& context) {
  const bool is_known = job.is_checked && job.expected_hash.has_value();
  const auto hash =
      is_known ? Result<BlobHash>(*job.expected_hash) : check_hash(job.blob, job.expected_hash);
  if (!hash) return tl::unexpected<Error>(hash.error());
  const auto blob = wire::parse_expert_blob(job.blob.bytes());
  if (!blob) return tl::unexpected<Error>(blob.error());
  const compute::ExpertView& view = blob->view;
  auto resident = context.backend.upload_expert(view, context.executor);
  if (!resident) return tl::unexpected<Error>(resident.error());
  AdmittedExpert admitted{.resident = std::move(*resident), .hash = *hash};
  admitted.facts = {.d_model = view.d_model(),
                    .d_ff = view.d_ff(),
                    .gate_type = view.gate ? std::optional(view.gate->type) : std::nullopt,
                    .up_type = view.up.type,
                    .down_type = view.down.type,
                    .resident_bytes = admitted.resident->bytes()};
  return admitted;
}

Result<AdmittedGate> admit_gate(const AdmitGate& job, const JobContext& context) {
  const auto hash = check_hash(job.blob, job.expected_hash);
  if (!hash) return tl::unexpected<Error>(hash.error());
  const auto blob = wire::parse_gate_blob(job.blob.bytes());
  if (!blob) return tl::unexpected<Error>(blob.error());
  auto gate = std::make_shared<Gate>(Gate{.router = routing::Router(*blob)});
  gate->expert_width = blob->expert_width();
  gate->bytes = gate->router.bytes();
  auto status = upload_into(gate->weight, blob->router, *gate, context);
  if (status) status = upload_into(gate->shared_gate, blob->shared_gate, *gate, context);
  if (status) status = upload_into(gate->latent_down, blob->latent_down, *gate, context);
  if (status) status = upload_into(gate->latent_up, blob->latent_up, *gate, context);
  if (!status) return tl::unexpected<Error>(status.error());
  return AdmittedGate{std::move(gate), *hash};
}

}  // namespace tenzro::work
