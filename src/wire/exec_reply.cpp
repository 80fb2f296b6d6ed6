#include <algorithm>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/exec_message.hpp"

#include "exec_frame.hpp"

namespace tenzro::wire {
namespace {

constexpr std::uint32_t kReplyFields = field_bits({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
constexpr std::uint32_t kReplyDelimited = field_bits({6, 8, 9, 10});
constexpr std::uint32_t kReplyRepeated = field_bits({8});
constexpr std::uint32_t kReceiptFields = field_bits({1, 2, 3, 4, 5, 6, 7, 8, 9});
constexpr std::uint32_t kReceiptDelimited = field_bits({3, 4, 5, 6});
constexpr std::uint32_t kStatusMax = 2;
constexpr std::uint32_t kFailureMax = 4;

/// A receipt names all four hashes.
constexpr std::uint32_t kHashFields = kReceiptDelimited;

Result<ExecReceipt> read_receipt(std::span<const std::uint8_t> message) {
  ExecFields fields(message, "receipt");
  ExecReceipt receipt;
  std::uint32_t hashes = 0;
  const auto read_type = [&fields](const ProtoField& field, std::uint8_t& out) {
    std::uint32_t number = 0;
    fields.read_u32(field, "type", UINT8_MAX, number);
    out = static_cast<std::uint8_t>(number);
  };
  receipt.gate_type = 0;  // the default of the format, not of the struct
  while (const auto field = fields.next(kReceiptFields, kReceiptDelimited, 0)) {
    hashes |= (1U << field->number) & kHashFields;
    if (field->number == 1) fields.read_u32(*field, "expert", UINT32_MAX, receipt.expert);
    if (field->number == 2) fields.read_u32(*field, "rows", kExecTokensMax, receipt.rows);
    if (field->number == 3) fields.read_bytes(*field, "input_hash", receipt.input_hash);
    if (field->number == 4) fields.read_bytes(*field, "commitment", receipt.commitment);
    if (field->number == 5) fields.read_bytes(*field, "rows_hash", receipt.rows_hash);
    if (field->number == 6) fields.read_bytes(*field, "blob_hash", receipt.blob);
    if (field->number == 7) read_type(*field, receipt.gate_type);
    if (field->number == 8) read_type(*field, receipt.up_type);
    if (field->number == 9) read_type(*field, receipt.down_type);
  }
  if (hashes != kHashFields) fields.refuse("a hash is missing");
  if (const Status status = fields.finish(); !status) return fail(status.error());
  return receipt;
}

class ReplyReader {
 public:
  explicit ReplyReader(std::span<const std::uint8_t> header) : fields_(header, "reply") {}

  Result<ExecReply> run() {
    while (const auto field = fields_.next(kReplyFields, kReplyDelimited, kReplyRepeated)) {
      take(*field);
    }
    if (const Status status = check_version(version_, features_); !status) {
      return fail(ErrorCode::runtime, "", status.error().message());
    }
    if (const Status status = fields_.finish(); !status) return fail(status.error());
    if (reply_.status == ExecStatus::served && proofs_ != kProofs) {
      return exec_refusal("reply: key or signature is missing");
    }
    if (reply_.status == ExecStatus::failed && failure_ == 0) {
      return exec_refusal("reply: a failure without its kind");
    }
    reply_.failure = static_cast<ExecFailure>(std::max(failure_, 1U));
    return std::move(reply_);
  }

 private:
  static constexpr std::uint32_t kProofs = field_bits({9, 10});

  void take(const ProtoField& field) {
    std::uint32_t number = 0;
    switch (field.number) {
      case 1:
        return fields_.read_u32(field, "version", UINT32_MAX, version_);
      case 2:
        features_ = field.varint;
        return;
      case 3:
        fields_.read_u32(field, "status", kStatusMax, number);
        reply_.status = static_cast<ExecStatus>(number);
        return;
      case 4:
        return fields_.read_u32(field, "retry_after_ms", UINT32_MAX, reply_.retry_after_ms);
      case 5:
        return fields_.read_u32(field, "failure", kFailureMax, failure_);
      case 6:
        if (field.bytes.size() > kExecTextBytesMax) return fields_.refuse("text is too long");
        reply_.text.assign(field.bytes.begin(), field.bytes.end());
        return;
      case 7:
        fields_.read_u32(field, "profile", 1, number);
        profile_is_exact(number == 1);
        return;
      case 8:
        return take_receipt(field);
      case 9:
        proofs_ |= 1U << 9U;
        return fields_.read_bytes(field, "provider_key", reply_.key);
      default:
        proofs_ |= 1U << 10U;
        return fields_.read_bytes(field, "signature", reply_.signature);
    }
  }

  void profile_is_exact(bool is_exact) {
    reply_.profile = is_exact ? compute::Profile::exact : compute::Profile::fast;
  }

  void take_receipt(const ProtoField& field) {
    if (reply_.receipts.size() == kExecExpertsMax) return fields_.refuse("too many receipts");
    auto receipt = read_receipt(field.bytes);
    if (!receipt) return fields_.refuse(receipt.error().message());
    reply_.receipts.push_back(*receipt);
  }

  ExecFields fields_;
  ExecReply reply_{.profile = compute::Profile::fast};  // the default of the format
  std::uint32_t version_ = 0;
  std::uint64_t features_ = 0;
  std::uint32_t failure_ = 0;
  std::uint32_t proofs_ = 0;
};

void write_receipt(ProtoWriter& out, const ExecReceipt& receipt) {
  ProtoWriter message;
  message.varint(1, receipt.expert);
  message.varint(2, receipt.rows);
  message.bytes(3, receipt.input_hash);
  message.bytes(4, receipt.commitment);
  message.bytes(5, receipt.rows_hash);
  message.bytes(6, receipt.blob);
  message.varint(7, receipt.gate_type);
  message.varint(8, receipt.up_type);
  message.varint(9, receipt.down_type);
  out.bytes(8, message.message());
}

/// At most `max` bytes, never half a character.
std::string_view cut(std::string_view text, std::size_t max) {
  if (text.size() <= max) return text;
  std::size_t end = max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

}  // namespace

std::vector<BufferRef> encode_exec_reply(const ExecReply& reply) {
  ProtoWriter out;
  out.varint(1, kExecVersion);
  out.varint(3, static_cast<std::uint64_t>(reply.status));
  if (reply.status != ExecStatus::served) {
    out.varint(4, reply.retry_after_ms);
    if (reply.status == ExecStatus::failed) {
      out.varint(5, static_cast<std::uint64_t>(reply.failure));
    }
    out.text(6, cut(reply.text, kExecTextBytesMax));
    return {frame_header(out.message())};
  }
  TENZRO_ASSERT(reply.rows.size() == reply.receipts.size());
  out.varint(7, reply.profile == compute::Profile::exact ? 1 : 0);
  for (const ExecReceipt& receipt : reply.receipts) write_receipt(out, receipt);
  out.bytes(9, reply.key);
  out.bytes(10, reply.signature);
  std::vector<BufferRef> parts{frame_header(out.message())};
  parts.insert(parts.end(), reply.rows.begin(), reply.rows.end());
  return parts;
}

Result<ExecReply> decode_exec_reply(const BufferRef& message, std::uint32_t width) {
  const auto frame = read_frame(message);
  if (!frame) return fail(frame.error());
  auto reply = ReplyReader(frame->header).run();
  if (!reply) return reply;
  std::uint64_t rows = 0;
  for (const ExecReceipt& receipt : reply->receipts) rows += receipt.rows;
  if (reply->status != ExecStatus::served) rows = 0;
  const auto wanted = exec_carrier_bytes(rows, width, false);
  if (!wanted || frame->rows.size() != *wanted) {
    return exec_refusal("rows of " + std::to_string(frame->rows.size()) + " bytes; " +
                        std::to_string(rows) + " rows were announced");
  }
  if (reply->status != ExecStatus::served) {
    reply->receipts.clear();
    return reply;
  }
  std::size_t offset = 0;
  for (const ExecReceipt& receipt : reply->receipts) {
    const std::size_t size = std::size_t{receipt.rows} * width * sizeof(float);
    reply->rows.push_back(frame->rows.slice(offset, size));
    offset += size;
  }
  return reply;
}

}  // namespace tenzro::wire
