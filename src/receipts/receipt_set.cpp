#include "tenzro/receipts/receipt_set.hpp"

#include <string>
#include <utility>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/crypto/sha256_many.hpp"

#include "batch_hashes.hpp"

namespace tenzro::receipts {
namespace {

void append_bytes(std::vector<std::uint8_t>& out, std::span<const std::uint8_t> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::vector<std::uint8_t> message_of(const SetExecution& execution,
                                     std::span<const SetBatch> batches, const ReceiptSet& set) {
  const ProviderAddress provider = crypto::address_of(set.key);
  std::vector<std::vector<std::uint8_t>> payloads;
  std::vector<crypto::Sha256Text> texts;
  std::vector<Hash32> hashes(batches.size());
  std::vector<crypto::Sha256Job> jobs;
  payloads.reserve(batches.size());
  texts.reserve(batches.size());
  jobs.reserve(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    payloads.push_back(set_payload(execution, batches[i].rows, set.experts[i], provider));
    jobs.push_back({&texts.emplace_back(payloads.back()), &hashes[i]});
  }
  crypto::sha256_many(jobs);
  return set_message(hashes);
}

Status refused(const SetExecution& execution, ExpertIndex expert, std::string detail) {
  return fail(
      ErrorCode::forbidden,
      "expert " + std::to_string(execution.layer) + '/' + std::to_string(expert) + " receipt",
      std::move(detail));
}

Status refused(std::string detail) {
  return fail(ErrorCode::forbidden, "receipt set", std::move(detail));
}

/// What can be told without hashing anything.
Status check_names(const SetExecution& execution, std::span<const SetBatch> batches,
                   const ReceiptSet& set) {
  if (set.profile != execution.profile) return refused("another profile than asked for");
  if (set.experts.size() != batches.size()) return refused("other experts than asked for");
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const ExpertReceipt& receipt = set.experts[i];
    const SetBatch& batch = batches[i];
    if (receipt.expert != batch.expert) return refused("other experts than asked for");
    if (receipt.rows != batch.rows.size()) {
      return refused(execution, batch.expert, "other rows than asked for");
    }
    if (batch.blob != BlobHash{} && receipt.blob != batch.blob) {
      return refused(execution, batch.expert, "another blob than the holder declared");
    }
  }
  return {};
}

}  // namespace

std::vector<std::uint8_t> set_payload(const SetExecution& execution,
                                      std::span<const std::uint32_t> rows,
                                      const ExpertReceipt& receipt,
                                      const ProviderAddress& provider) {
  constexpr std::size_t kFixedBytes = 320;
  std::vector<std::uint8_t> out;
  out.reserve(kFixedBytes + execution.model.size() + rows.size() * sizeof(std::uint32_t));
  append_text(out, "tenzro/moe/receipt/2");
  append_u32_le(out, static_cast<std::uint32_t>(execution.model.size()));
  append_text(out, execution.model);
  append_u32_le(out, execution.layer);
  append_u32_le(out, receipt.expert);
  append_u32_le(out, static_cast<std::uint32_t>(rows.size()));
  for (const std::uint32_t row : rows) append_u32_le(out, execution.tokens[row]);
  append_bytes(out, receipt.input_hash);
  append_bytes(out, receipt.commitment);
  append_bytes(out, receipt.rows_hash);
  append_bytes(out, provider);
  append_bytes(out, execution.router);
  append_bytes(out, execution.nonce);
  append_bytes(out, receipt.blob);
  out.push_back(receipt.gate_type);
  out.push_back(receipt.up_type);
  out.push_back(receipt.down_type);
  out.push_back(execution.profile == compute::Profile::exact ? 1 : 0);
  return out;
}

std::vector<std::uint8_t> set_message(std::span<const Hash32> payload_hashes) {
  std::vector<std::uint8_t> out;
  append_text(out, "tenzro/moe/receipt-set/2");
  append_u32_le(out, static_cast<std::uint32_t>(payload_hashes.size()));
  for (const Hash32& hash : payload_hashes) append_bytes(out, hash);
  return out;
}

ReceiptSet make_set(const crypto::KeyPair& key, const SetExecution& execution,
                    std::span<const SetBatch> batches, compute::Executor& executor) {
  const std::vector<BatchHashes> hashes = hash_batches(execution, batches, executor);
  ReceiptSet set{.profile = execution.profile, .key = key.public_key()};
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const SetBatch& batch = batches[i];
    set.experts.push_back({.expert = batch.expert,
                           .rows = static_cast<std::uint32_t>(batch.rows.size()),
                           .input_hash = hashes[i].input,
                           .commitment = hashes[i].commitment,
                           .rows_hash = hashes[i].rows,
                           .blob = batch.blob,
                           .gate_type = batch.gate_type,
                           .up_type = batch.up_type,
                           .down_type = batch.down_type});
  }
  set.signature = key.sign(message_of(execution, batches, set));
  return set;
}

Status verify_set(const EndpointId& holder, const SetExecution& execution,
                  std::span<const SetBatch> batches, const ReceiptSet& set,
                  compute::Executor& executor) {
  if (set.key != holder) return refused("signed by another key than the holder's");
  if (Status status = check_names(execution, batches, set); !status) return status;
  const std::vector<BatchHashes> hashes = hash_batches(execution, batches, executor);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const ExpertReceipt& receipt = set.experts[i];
    const ExpertIndex expert = batches[i].expert;
    if (receipt.input_hash != hashes[i].input) {
      return refused(execution, expert, "input hash mismatch");
    }
    if (receipt.commitment != hashes[i].commitment) {
      return refused(execution, expert, "activation commitment mismatch");
    }
    if (receipt.rows_hash != hashes[i].rows) {
      return refused(execution, expert, "rows hash mismatch");
    }
  }
  if (!crypto::verify(set.key, message_of(execution, batches, set), set.signature)) {
    return refused("bad signature");
  }
  return {};
}

}  // namespace tenzro::receipts
