#pragma once
/// \file
/// Work that a core asks for: compute jobs (run by `exec`) and store operations (run by `store`),
/// with their results.
///
/// A job is a value: everything it needs is inside it, tensors as BufferRefs, weights as shared
/// handles. Bodies are pure functions (`node::run_job`), so the simulator runs the same ones. A
/// result carries the JobId it answers; a core that no longer wants it ignores it.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tenzro/base/buffer.hpp"
#include "tenzro/base/ids.hpp"
#include "tenzro/base/result.hpp"
#include "tenzro/compute/backend.hpp"
#include "tenzro/routing/routed.hpp"
#include "tenzro/rpc/exchange.hpp"
#include "tenzro/wire/exec_message.hpp"
#include "tenzro/wire/gate_blob.hpp"
#include "tenzro/work/arriving.hpp"
#include "tenzro/work/gate.hpp"
#include "tenzro/work/job_log.hpp"
#include "tenzro/work/partial.hpp"
#include "tenzro/work/remote.hpp"
#include "tenzro/work/source.hpp"

namespace tenzro::work {

// ---- compute jobs
// -------------------------------------------------------------------------------------------------

/// Parse, check, hash and upload an expert blob.
struct AdmitExpert {
  BufferRef blob;
  /// The bytes were checked against `expected_hash` before, in this life of the process: it is
  /// taken as it is.
  bool is_checked = false;
  /// Where present the blob's BLAKE3 must equal it, else the job fails with code io ("hash
  /// mismatch").
  std::optional<BlobHash> expected_hash;
  /// Where present there are no bytes in `blob`: they are read from here.
  std::shared_ptr<const compute::WeightSource> source = nullptr;
  /// Where present the blob, a `source`, is read by slices, and what it becomes takes so much at
  /// most; an expert that needs more stays where it is, and is read by every run. Then `is_checked`
  /// also says that its values were checked.
  std::optional<std::uint64_t> memory_bytes_max = std::nullopt;
  /// Where present there are no bytes in `blob`: they are checked and packed as they come, and the
  /// job waits for them. Nothing of it is given away before the hash is right.
  std::shared_ptr<const ArrivingBlob> arriving = nullptr;
  /// Values of a blob of this hash were checked before, in this life of the process. For
  /// `arriving`.
  bool are_values_known = false;
  /// Of bytes that are in memory, or come: what they become takes so much at most, beside them. Of
  /// an expert that needs more nothing is made: it is checked, and its facts say what it needs.
  std::optional<std::uint64_t> held_bytes_max = std::nullopt;
};

struct ExpertFacts {
  std::uint32_t d_model = 0;
  std::uint32_t d_ff = 0;
  std::optional<tensor::WeightType> gate_type;  ///< absent for two-matrix experts
  tensor::WeightType up_type = tensor::WeightType::f32;
  tensor::WeightType down_type = tensor::WeightType::f32;
  /// Bytes the resident form holds, or would hold where it is not made.
  std::uint64_t resident_bytes = 0;

  /// True where every projection is block-quantised (the Q8_0 carrier then loses nothing).
  [[nodiscard]] bool is_quantized() const;
  /// Coarsest type present in the order q4_k, q6_k, q8_0; nothing where all are dense.
  [[nodiscard]] std::optional<tensor::WeightType> coarsest_quant() const;
};

struct AdmittedExpert {
  /// Null: it needs more than it may have.
  std::shared_ptr<const compute::ResidentExpert> resident;
  ExpertFacts facts;
  BlobHash hash{};
  /// The least `memory_bytes_max` that it can be admitted with.
  std::uint64_t stream_bytes_min = 0;
};

struct AdmitGate {
  BufferRef blob;
  std::optional<BlobHash> expected_hash;
};

struct AdmittedGate {
  std::shared_ptr<const Gate> gate;
  BlobHash hash{};
};

/// Gate a batch: logits, slots and weights; and the rows the experts will see, where the layer is
/// latent.
struct RunGate {
  std::shared_ptr<const Gate> gate;
  compute::Profile profile = compute::Profile::exact;
  std::uint32_t tokens = 0;
  BufferRef hidden;         ///< [tokens, d_model] f32
  BufferRef router_hidden;  ///< the same shape, or empty: the router reads `hidden`
  std::uint32_t top_k = 0;
  std::vector<std::int64_t> token_ids;
  /// Also compute the latent projection of `hidden` for the experts.
  bool wants_expert_input = false;
};

struct GateResult {
  routing::Routed routed;
  /// [tokens, expert_width] f32: `hidden` itself where the layer is not latent. Empty unless asked
  /// for.
  BufferRef expert_input;
  /// Whether the Q8_0 carrier can hold `hidden` and `expert_input`; false unless asked for.
  bool can_be_q8 = false;
};

/// Run experts over rows of one input. Fails (runtime) where an output is not finite.
struct RunExperts {
  struct Batch {
    ExpertIndex expert = 0;
    std::shared_ptr<const compute::ResidentExpert> resident;
    std::vector<std::uint32_t> rows;  ///< indices into `input`; may repeat
  };

  compute::Profile profile = compute::Profile::exact;
  /// Round the input rows to Q8_0 and back first (carrier q8).
  bool round_to_q8 = false;
  BufferRef input;  ///< [*, width] f32
  std::uint32_t width = 0;
  std::vector<Batch> batches;
  /// What error texts call row r; empty: r itself.
  std::vector<std::uint32_t> token_names;
};

struct ExpertOutput {
  ExpertIndex expert = 0;
  std::vector<std::uint32_t> rows;
  BufferRef values;  ///< [rows.size(), width] f32
};

struct ExpertsResult {
  std::vector<ExpertOutput> outputs;
};

/// Weighted sum in (token, slot) order, however the outputs arrived; see work/bodies.hpp.
struct Combine {
  std::shared_ptr<const Gate> gate;
  LayerIndex layer = 0;  ///< for error texts
  compute::Profile profile = compute::Profile::exact;
  routing::Routed routed;
  std::uint32_t d_model = 0;
  std::vector<ExpertOutput> outputs;
  /// Scale the routed slots of a token that lacks some by total / arrived weight (allow_partial).
  bool allow_partial = false;
  double min_kept_mass = 0.5;
};

struct CombineResult {
  BufferRef outputs;  ///< [tokens, d_model] f32
};

/// What a receipt of version 2 says beside what ran.
struct ReceiptTerms {
  wire::ExecNonce nonce{};
  /// Who asked, as the connection proves it.
  EndpointId router{};
  compute::Profile profile = compute::Profile::exact;
};

/// What runs when an expert does: receipts of version 2 name it.
struct ExpertIdentity {
  BlobHash blob{};  ///< zeros where the weights came inline
  ExpertFacts facts;
};

/// Commit to the outputs of one executed batch and sign it (receipt v1).
struct SignReceipt {
  ExpertKey key;
  std::vector<std::uint32_t> token_indices;
  bool is_q8 = false;
  BufferRef carrier;
  std::uint32_t d_model = 0;
  BufferRef outputs;
  /// Where present a receipt of version 2 is made as well; `identity` is for it.
  std::optional<ReceiptTerms> terms = std::nullopt;
  ExpertIdentity identity = {};
};

struct SignedReceipt {
  std::string receipt_json;
  std::optional<std::string> receipt2_json = std::nullopt;
};

/// Read a peer's message of tenzro/exec/1. Error: invalid_params, a sentence for the peer.
struct DecodeExec {
  BufferRef message;
};

struct DecodedExec {
  std::shared_ptr<const wire::ExecRequest> request;
  BufferRef input;  ///< [tokens, width] f32: the carrier's rows
};

/// Sign what ran for a peer (receipt v2) and put the reply together.
struct SignExec {
  std::shared_ptr<const wire::ExecRequest> request;
  EndpointId router{};
  std::vector<ExpertIdentity> identities;  ///< as the next, in the order of the request
  std::vector<BufferRef> outputs;
};

struct SignedExec {
  std::vector<BufferRef> reply;
};

/// Read a frame of tenzro/moe. Error: invalid_params where it is no frame at all; anything wrong
/// inside it is an answer of the exchange.
struct ReadFrame {
  BufferRef frame;
  bool may_execute = false;
};

struct FrameRead {
  std::shared_ptr<rpc::Exchange> exchange;
};

/// Write the reply frame. Requires that the exchange is complete.
struct WriteFrame {
  std::shared_ptr<const rpc::Exchange> exchange;
};

struct FrameWritten {
  std::vector<BufferRef> frame;
};

/// A remote holder's outputs, checked (see remote.hpp).
struct VerifiedReply {
  std::vector<ExpertOutput> outputs;
};

using Job = std::variant<AdmitExpert, AdmitGate, RunGate, RunExperts, Combine, SignReceipt,
                         EncodeCall, VerifyReply, DecodeExec, SignExec, ReadFrame, WriteFrame,
                         ScanIndex, ScanHeader, ScanGguf, BuildExpertBlob, BuildGateBlob>;
using JobOutput = std::variant<AdmittedExpert, AdmittedGate, GateResult, ExpertsResult,
                               CombineResult, SignedReceipt, EncodedCall, VerifiedReply,
                               DecodedExec, SignedExec, FrameRead, FrameWritten, ScannedIndex,
                               ScannedHeader, ScannedGguf, BuiltExpertBlob, BuiltGateBlob>;
using JobResult = Result<JobOutput>;

// ---- store operations
// ---------------------------------------------------------------------------------------------

/// What the store remembers of one loaded expert or gate.
struct HoldingRow {
  LayerKey layer;
  std::optional<ExpertIndex> expert;  ///< absent for a gate
  BlobHash hash{};
  /// The URI this holding declares; absent for inline loads.
  std::optional<std::string> source_uri;
  ExpertFacts facts;  ///< experts
  std::uint32_t gate_experts = 0;
  std::uint32_t gate_d_model = 0;
  std::uint64_t gate_bytes = 0;
};

/// Blob bytes and row become durable together (temp file, fsync, rename; then the index), replacing
/// the key's row.
struct SaveHolding {
  HoldingRow row;
  BufferRef blob;  ///< empty where the store already has row.hash, by a row or under a lease
};

/// Removes the row, and its blob unless another row or a publication needs it.
struct RemoveHolding {
  LayerKey layer;
  std::optional<ExpertIndex> expert;
};

/// Stores bytes for others to fetch (publish, prepare): kept until unpublished.
struct PublishBlob {
  BufferRef bytes;
  /// Where present the log has it when the answer comes.
  std::optional<JobPart> part = std::nullopt;
};

/// A whole blob, or `not_found`.
struct ReadBlob {
  BlobHash hash{};
  /// A larger blob is refused before it is read (infrastructure); 0: the store's own limit.
  std::uint64_t bytes_max = 0;
  /// Hash the bytes while they are read.
  bool wants_hash = false;
  /// The answer may be an Arriving, given before the bytes are there.
  bool may_arrive = false;
  /// Then one of more bytes is answered by an OpenedBlob: nobody reckoned with these; 0: none is.
  std::uint64_t whole_bytes_max = 0;
};

/// A blob to be read by slices, for as long as the answer's source lives.
struct OpenBlob {
  BlobHash hash{};
};

/// Moves a blob that failed its check out of the way and forgets it.
struct QuarantineBlob {
  BlobHash hash{};
};

/// Bytes [offset, offset + length) of `file` below the directory `root`. `file` may not leave
/// `root`.
struct ReadSource {
  std::string root;
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  /// Fewer bytes than asked for are an error unless this is set (then: what there is).
  bool allow_short = false;
  /// What ReadBytes said of the file before; where it is another now, that is an error. Empty: not
  /// looked at.
  std::string version = {};
};

using StoreOp =
    std::variant<SaveHolding, RemoveHolding, PublishBlob, ReadBlob, OpenBlob, QuarantineBlob,
                 ReadSource, OpenPartial, WritePartial, FinishPartial, ClosePartial, ReleaseBlob,
                 ReadBlobRange, LogJob, ForgetJob, CheckSpace>;

/// Tells a blob's file from one that was put in its place, and from itself before it was written
/// to; 0: nobody can tell.
using FileMark = std::uint64_t;

struct Saved {
  FileMark file = 0;  ///< of a holding: its blob's
};

struct Removed {
  bool existed = false;
};

struct Published {
  BlobHash hash{};
  std::uint64_t size_bytes = 0;
};

struct OpenedBlob {
  std::shared_ptr<const compute::WeightSource> source;
  FileMark file = 0;
};

struct Arriving {
  std::shared_ptr<const ArrivingBlob> blob;
  FileMark file = 0;
};

struct ReadBytes {
  BufferRef bytes;
  /// Of the bytes, where it was asked for and the store gives it.
  std::optional<BlobHash> hash = std::nullopt;
  /// Of a source: the size of the whole file, and what tells it from one that was changed.
  std::uint64_t file_bytes = 0;
  std::string version = {};
  FileMark file = 0;  ///< of a blob
};

using StoreOutput = std::variant<Saved, Removed, Published, ReadBytes, Arriving, OpenedBlob,
                                 OpenedPartial, WrittenPartial, FinishedPartial, BlobRange>;
using StoreResult = Result<StoreOutput>;

// ---- actions
// ------------------------------------------------------------------------------------------------------

struct Run {
  JobId id{};
  Job job;
};

struct Store {
  JobId id{};
  StoreOp op;
};

/// Hands out JobIds; one a node.
class JobIds {
 public:
  [[nodiscard]] JobId next() { return JobId{++last_}; }

 private:
  std::uint64_t last_ = 0;
};

}  // namespace tenzro::work
