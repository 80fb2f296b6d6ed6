#include "tenzro/receipts/receipt_set.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/crypto/sha256.hpp"
#include "tenzro/receipts/commitment.hpp"

namespace tenzro::receipts {
namespace {

/// Below this many output values a second thread costs more than it saves.
constexpr std::size_t kParallelValuesMin = 1U << 16U;

struct Hashes {
  Hash32 input{};
  Hash32 commitment{};
  Hash32 rows{};
};

constexpr unsigned kHashKinds = 3;

Hash32 hash_input(const SetExecution& execution, std::span<const std::uint32_t> rows) {
  const std::size_t stride = execution.carrier.size() / execution.tokens.size();
  const std::uint8_t kind[] = {static_cast<std::uint8_t>(execution.carrier_kind)};
  crypto::Sha256 hasher;
  hasher.update("tenzro/moe/carrier").update(kind);
  for (std::size_t i = 0; i < rows.size();) {  // neighbours at once
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    hasher.update(execution.carrier.subspan(rows[i] * stride, (end - i) * stride));
    i = end;
  }
  return hasher.finish();
}

std::vector<Hashes> hash_batches(const SetExecution& execution, std::span<const SetBatch> batches,
                                 compute::Executor& executor) {
  TENZRO_ASSERT(!execution.tokens.empty());
  // Experts often see the same rows; those are hashed once.
  const auto before = [](std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  };
  std::map<std::span<const std::uint32_t>, std::size_t, decltype(before)> first(before);
  std::vector<std::size_t> source;
  std::size_t values = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    source.push_back(first.emplace(batches[i].rows, i).first->second);
    values += batches[i].outputs.size();
  }
  std::vector<Hashes> hashes(batches.size());
  const auto hash_one = [&](std::size_t task) {
    const std::size_t at = task / kHashKinds;
    const SetBatch& batch = batches[at];
    if (task % kHashKinds == 0) {
      if (source[at] == at) hashes[at].input = hash_input(execution, batch.rows);
    } else if (task % kHashKinds == 1) {
      hashes[at].commitment =
          commitment_of_rows(execution.tokens, batch.rows, batch.outputs, execution.width);
    } else {
      hashes[at].rows = hash_rows(batch.outputs, execution.width);
    }
  };
  const std::size_t tasks = batches.size() * kHashKinds;
  if (values < kParallelValuesMin) {
    for (std::size_t task = 0; task < tasks; ++task) hash_one(task);
  } else {
    executor.parallel_for(tasks, hash_one);
  }
  for (std::size_t i = 0; i < batches.size(); ++i) hashes[i].input = hashes[source[i]].input;
  return hashes;
}

void append_bytes(std::vector<std::uint8_t>& out, std::span<const std::uint8_t> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::vector<std::uint8_t> message_of(const SetExecution& execution,
                                     std::span<const SetBatch> batches, const ReceiptSet& set) {
  const ProviderAddress provider = crypto::address_of(set.key);
  std::vector<Hash32> payloads;
  payloads.reserve(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    payloads.push_back(
        crypto::sha256(set_payload(execution, batches[i].rows, set.experts[i], provider)));
  }
  return set_message(payloads);
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

Hash32 hash_rows(std::span<const float> values, std::uint32_t d_model) {
  TENZRO_ASSERT(d_model != 0 && values.size() % d_model == 0);
  constexpr std::size_t kChunk = 1024;
  static_assert(std::endian::native == std::endian::little);
  std::uint16_t chunk[kChunk];
  crypto::Sha256 hasher;
  hasher.update("tenzro/moe/rows");
  hasher.update_u32(static_cast<std::uint32_t>(values.size() / d_model)).update_u32(d_model);
  for (std::size_t at = 0; at < values.size(); at += kChunk) {
    const std::size_t count = std::min(kChunk, values.size() - at);
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[at + i]);
      // A NaN must not round to infinity; verified rows hold none.
      const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
      const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
      chunk[i] = static_cast<std::uint16_t>(is_nan ? (bits >> 16U) | 0x40U : rounded);
    }
    hasher.update(std::as_bytes(std::span(chunk, count)));
  }
  return hasher.finish();
}

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
  const std::vector<Hashes> hashes = hash_batches(execution, batches, executor);
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
  const std::vector<Hashes> hashes = hash_batches(execution, batches, executor);
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
