#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/blake3.hpp"
#include "tenzro/wire/expert_blob.hpp"
#include "tenzro/wire/gate_blob.hpp"
#include "tenzro/work/bodies.hpp"

namespace tenzro::work {
namespace {

tl::unexpected<Error> other_hash(const BlobHash& expected, const BlobHash& hash) {
  return fail(ErrorCode::io, "blob " + to_hex(expected),
              "hash mismatch: the bytes hash to " + to_hex(hash));
}

/// The blob's hash, or `io` where it is not the expected one.
Result<BlobHash> check_hash(const BufferRef& blob, const std::optional<BlobHash>& expected) {
  const BlobHash hash = crypto::blake3(as_u8(blob.bytes()));
  if (expected && *expected != hash) return other_hash(*expected, hash);
  return hash;
}

/// The same of a blob that is not in memory.
Result<BlobHash> check_hash(const compute::WeightSource& source,
                            const std::optional<BlobHash>& expected, std::uint64_t bytes_max) {
  constexpr std::uint64_t kReadBytesMin = std::uint64_t{1} << 12U;
  constexpr std::uint64_t kReadBytesMax = std::uint64_t{1} << 20U;
  const std::uint64_t step = std::clamp(bytes_max, kReadBytesMin, kReadBytesMax);
  crypto::Blake3 hasher;
  std::vector<std::byte> bytes(static_cast<std::size_t>(step));
  const std::uint64_t size = source.size_bytes();
  for (std::uint64_t at = 0; at < size; at += step) {
    const auto some = std::span(bytes).first(static_cast<std::size_t>(std::min(step, size - at)));
    if (Status read = source.read(at, some); !read) return fail(read.error());
    hasher.update(std::span<const std::byte>(some));
  }
  const BlobHash hash = hasher.digest();
  if (expected && *expected != hash) return other_hash(*expected, hash);
  return hash;
}

ExpertFacts facts_of(const compute::ExpertView& view, std::uint64_t resident_bytes) {
  return {.d_model = view.d_model(),
          .d_ff = view.d_ff(),
          .gate_type = view.gate ? std::optional(view.gate->type) : std::nullopt,
          .up_type = view.up.type,
          .down_type = view.down.type,
          .resident_bytes = resident_bytes};
}

/// Refused before anything of its size is read, where not even slices of it fit.
Status check_room(const compute::ExpertMemory& memory, std::uint64_t memory_bytes_max) {
  if (memory.stream_bytes_min <= memory_bytes_max) return {};
  return fail(ErrorCode::no_space, "weights",
              "an expert that takes " + std::to_string(memory.held_bytes) + " bytes of memory, " +
                  std::to_string(memory.stream_bytes_min) +
                  " to be run from disk by slices, may have " + std::to_string(memory_bytes_max));
}

/// Where its values are known, what it takes; nothing of it is kept.
Result<compute::ExpertMemory> memory_of(const std::shared_ptr<const compute::WeightSource>& source,
                                        std::uint64_t memory_bytes_max,
                                        std::uint64_t header_bytes_max, const JobContext& context) {
  const auto blob =
      wire::open_expert_blob(source, wire::Values::known, memory_bytes_max, header_bytes_max);
  if (!blob) return tl::unexpected<Error>(blob.error());
  return context.backend.memory_of(blob->view);
}

Result<AdmittedExpert> admit_by_slices(const AdmitExpert& job, std::uint64_t memory_bytes_max,
                                       const JobContext& context) {
  TENZRO_ASSERT(job.source != nullptr);
  const bool is_known = job.is_checked && job.expected_hash.has_value();
  const auto hash = is_known ? Result<BlobHash>(*job.expected_hash)
                             : check_hash(*job.source, job.expected_hash, memory_bytes_max);
  if (!hash) return tl::unexpected<Error>(hash.error());
  const auto memory =
      memory_of(job.source, memory_bytes_max, wire::kStreamedHeaderBytesMax, context);
  if (!memory) return tl::unexpected<Error>(memory.error());
  if (Status room = check_room(*memory, memory_bytes_max); !room)
    return tl::unexpected<Error>(room.error());
  const auto blob = wire::open_expert_blob(
      job.source, is_known ? wire::Values::known : wire::Values::unknown, memory_bytes_max);
  if (!blob) return tl::unexpected<Error>(blob.error());
  auto resident = context.backend.upload_expert(blob->view, context.executor);
  if (!resident) return tl::unexpected<Error>(resident.error());
  return AdmittedExpert{std::move(*resident), facts_of(blob->view, memory->held_bytes), *hash,
                        memory->stream_bytes_min};
}

/// Whatever came of the bytes, unchecked but for their values.
Result<AdmittedExpert> pack_arriving(const AdmitExpert& job, const JobContext& context) {
  using wire::Values;
  constexpr std::uint64_t kNoMax = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t size = job.arriving->size_bytes();
  const auto memory = memory_of(job.arriving, kNoMax, size, context);
  if (!memory) return tl::unexpected<Error>(memory.error());
  const bool is_made = !job.held_bytes_max || memory->held_bytes <= *job.held_bytes_max;
  // Where nobody views them they are looked at here.
  const Values unknown = is_made ? Values::as_viewed : Values::unknown;
  const auto blob = wire::open_expert_blob(
      job.arriving, job.are_values_known ? Values::known : unknown, kNoMax, size);
  if (!blob) return tl::unexpected<Error>(blob.error());
  AdmittedExpert admitted{nullptr, facts_of(blob->view, memory->held_bytes),
                          job.expected_hash.value_or(BlobHash{}), memory->stream_bytes_min};
  if (!is_made) return admitted;
  auto resident = context.backend.upload_expert(blob->view, context.executor);
  if (!resident) return tl::unexpected<Error>(resident.error());
  admitted.resident = std::move(*resident);
  return admitted;
}

Result<AdmittedExpert> admit_arriving(const AdmitExpert& job, const JobContext& context) {
  auto packed = pack_arriving(job, context);
  if (job.is_checked && job.expected_hash.has_value()) return packed;
  const auto hash = job.arriving->hash();
  if (!hash) return tl::unexpected<Error>(hash.error());
  // First of all mistakes: what else is wrong with other bytes says nothing of the blob.
  if (job.expected_hash && *job.expected_hash != *hash)
    return other_hash(*job.expected_hash, *hash);
  if (packed) packed->hash = *hash;
  return packed;
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
  if (job.arriving != nullptr) return admit_arriving(job, context);
  if (job.memory_bytes_max) return admit_by_slices(job, *job.memory_bytes_max, context);
  const bool is_known = job.is_checked && job.expected_hash.has_value();
  const auto hash =
      is_known ? Result<BlobHash>(*job.expected_hash) : check_hash(job.blob, job.expected_hash);
  if (!hash) return tl::unexpected<Error>(hash.error());
  const auto blob = wire::parse_expert_blob(job.blob.bytes());
  if (!blob) return tl::unexpected<Error>(blob.error());
  const auto memory = context.backend.memory_of(blob->view);
  if (!memory) return tl::unexpected<Error>(memory.error());
  AdmittedExpert admitted{nullptr, facts_of(blob->view, memory->held_bytes), *hash,
                          memory->stream_bytes_min};
  if (job.held_bytes_max && memory->held_bytes > *job.held_bytes_max) return admitted;
  auto resident = context.backend.upload_expert(blob->view, context.executor);
  if (!resident) return tl::unexpected<Error>(resident.error());
  admitted.resident = std::move(*resident);
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
