#include <algorithm>

#include "tenzro/base/bytes.hpp"
#include "tenzro/tensor/block.hpp"
#include "tenzro/wire/exec_message.hpp"
#include "tenzro/wire/protocol.hpp"

#include "exec_frame.hpp"

namespace tenzro::wire {
namespace {

/// Room for the header of the largest reply beside its rows: a receipt takes fewer bytes than this.
constexpr std::size_t kReceiptBytesMax = 192;
constexpr std::size_t kReplyHeaderBytesMax = 512;

constexpr std::uint32_t kRequestFields = field_bits({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
constexpr std::uint32_t kRequestDelimited = field_bits({3, 8, 10, 11});
constexpr std::uint32_t kRequestRepeated = field_bits({11});
constexpr std::uint32_t kExpertFields = field_bits({1, 2, 3});
constexpr std::uint32_t kExpertDelimited = field_bits({2, 3});

bool ascends(std::span<const std::uint32_t> values) {
  return std::adjacent_find(values.begin(), values.end(), [](auto a, auto b) { return a >= b; }) ==
         values.end();
}

Result<ExecBatch> read_batch(std::span<const std::uint8_t> message) {
  ExecFields fields(message, "expert");
  ExecBatch batch;
  while (const auto field = fields.next(kExpertFields, kExpertDelimited, 0)) {
    if (field->number == 1) {
      fields.read_u32(*field, "expert", UINT32_MAX, batch.expert);
    } else if (field->number == 2) {
      auto rows = read_packed(field->bytes, kExecTokensMax);
      if (!rows) fields.refuse("rows are malformed or too many");
      if (rows) batch.rows = std::move(*rows);
    } else {
      fields.read_bytes(*field, "blob", batch.blob.emplace());
    }
  }
  if (const Status status = fields.finish(); !status) return fail(status.error());
  return batch;
}

Status check_batches(const ExecRequest& request) {
  if (request.batches.empty()) return exec_refusal("no experts");
  std::uint64_t pairs = 0;
  const ExecBatch* previous = nullptr;
  for (const ExecBatch& batch : request.batches) {
    if (previous != nullptr && batch.expert <= previous->expert) {
      return exec_refusal("experts must ascend without repeats");
    }
    previous = &batch;
    if (batch.rows.empty()) return exec_refusal("an expert without rows");
    if (!ascends(batch.rows)) return exec_refusal("rows of an expert must ascend without repeats");
    if (batch.rows.back() >= request.tokens.size()) return exec_refusal("a row beyond the tokens");
    pairs += batch.rows.size();
  }
  // 4096 experts x 65,536 rows x 131,072 values fit 64 bits.
  const std::uint64_t reply = pairs * request.width * sizeof(float) +
                              request.batches.size() * kReceiptBytesMax + kReplyHeaderBytesMax;
  if (reply > kExecMessageBytesMax) {
    return exec_refusal("the reply would take " + std::to_string(reply) + " bytes; the limit is " +
                        std::to_string(kExecMessageBytesMax));
  }
  return {};
}

Status check_request(const ExecRequest& request) {
  const ModelId& model = request.layer.model;
  if (model.empty() || model.size() > kModelIdBytesMax || !is_valid_utf8(model)) {
    return exec_refusal("model must be 1 to 256 bytes of UTF-8");
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(model.begin(), model.end(), is_control)) {
    return exec_refusal("model holds a control character");
  }
  if (request.width == 0 || request.width > kExecWidthMax) {
    return exec_refusal("width must be 1 to " + std::to_string(kExecWidthMax));
  }
  if (request.budget_ms == 0 || request.budget_ms > kExecBudgetMsMax) {
    return exec_refusal("budget_ms must be 1 to " + std::to_string(kExecBudgetMsMax));
  }
  if (request.tokens.empty()) return exec_refusal("no tokens");
  if (request.tokens.size() > kExecTokensMax) return exec_refusal("too many tokens");
  if (request.batches.size() > kExecExpertsMax) return exec_refusal("too many experts");
  if (!ascends(request.tokens)) return exec_refusal("tokens must ascend without repeats");
  if (Status status = check_batches(request); !status) return status;
  const auto wanted = exec_carrier_bytes(request.tokens.size(), request.width, request.is_q8);
  if (!wanted) return exec_refusal("width is not a multiple of 32, as Q8_0 needs");
  if (request.rows.size() != *wanted) {
    return exec_refusal("rows of " + std::to_string(request.rows.size()) + " bytes; " +
                        std::to_string(request.tokens.size()) + " tokens take " +
                        std::to_string(*wanted));
  }
  return {};
}

class RequestReader {
 public:
  explicit RequestReader(std::span<const std::uint8_t> header) : fields_(header, "request") {}

  Result<ExecRequest> run() {
    while (const auto field = fields_.next(kRequestFields, kRequestDelimited, kRequestRepeated)) {
      take(*field);
    }
    // Another version may mean other fields: it is named before them.
    if (const Status status = check_version(version_, features_); !status) {
      return fail(status.error());
    }
    if (const Status status = fields_.finish(); !status) return fail(status.error());
    if (!has_nonce_) return exec_refusal("no nonce");
    return std::move(request_);
  }

 private:
  void take(const ProtoField& field) {
    std::uint32_t number = 0;
    switch (field.number) {
      case 1:
        return fields_.read_u32(field, "version", UINT32_MAX, version_);
      case 2:
        features_ = field.varint;
        return;
      case 3:
        return take_model(field);
      case 4:
        return fields_.read_u32(field, "layer", UINT32_MAX, request_.layer.layer);
      case 5:
        fields_.read_u32(field, "profile", 1, number);
        request_.profile = number == 1 ? compute::Profile::exact : compute::Profile::fast;
        return;
      case 6:
        fields_.read_u32(field, "carrier", 1, number);
        request_.is_q8 = number == 1;
        return;
      case 7:
        return fields_.read_u32(field, "width", kExecWidthMax, request_.width);
      case 8:
        has_nonce_ = true;
        return fields_.read_bytes(field, "nonce", request_.nonce);
      case 9:
        return fields_.read_u32(field, "budget_ms", kExecBudgetMsMax, request_.budget_ms);
      case 10:
        return take_tokens(field);
      default:
        return take_batch(field);
    }
  }

  void take_model(const ProtoField& field) {
    if (field.bytes.size() > kModelIdBytesMax) return fields_.refuse("model is too long");
    request_.layer.model.assign(field.bytes.begin(), field.bytes.end());
  }

  void take_tokens(const ProtoField& field) {
    auto tokens = read_packed(field.bytes, kExecTokensMax);
    if (!tokens) return fields_.refuse("tokens are malformed or too many");
    request_.tokens = std::move(*tokens);
  }

  void take_batch(const ProtoField& field) {
    if (request_.batches.size() == kExecExpertsMax) return fields_.refuse("too many experts");
    auto batch = read_batch(field.bytes);
    if (!batch) return fields_.refuse(batch.error().message());
    request_.batches.push_back(std::move(*batch));
  }

  ExecFields fields_;
  ExecRequest request_{.profile = compute::Profile::fast};  // the default of the format
  std::uint32_t version_ = 0;
  std::uint64_t features_ = 0;
  bool has_nonce_ = false;
};

}  // namespace

std::optional<std::uint64_t> exec_carrier_bytes(std::uint64_t rows, std::uint32_t width,
                                                bool is_q8) {
  if (!is_q8) return checked_mul(rows, std::uint64_t{width} * sizeof(float));
  constexpr auto kType = tensor::WeightType::q8_0;
  if (width % tensor::block_elements(kType) != 0) return std::nullopt;
  return checked_mul(rows, tensor::row_bytes(kType, width));
}

Result<std::vector<BufferRef>> encode_exec_request(const ExecRequest& request) {
  if (const Status status = check_request(request); !status) return fail(status.error());
  ProtoWriter out;
  out.varint(1, kExecVersion);
  out.text(3, request.layer.model);
  out.varint(4, request.layer.layer);
  out.varint(5, request.profile == compute::Profile::exact ? 1 : 0);
  out.varint(6, request.is_q8 ? 1 : 0);
  out.varint(7, request.width);
  out.bytes(8, request.nonce);
  out.varint(9, request.budget_ms);
  out.packed(10, request.tokens);
  for (const ExecBatch& batch : request.batches) {
    ProtoWriter expert;
    expert.varint(1, batch.expert);
    expert.packed(2, batch.rows);
    if (batch.blob) expert.bytes(3, *batch.blob);
    out.bytes(11, expert.message());
  }
  if (framed_bytes(out.message().size()) + request.rows.size() > kExecMessageBytesMax ||
      out.message().size() > kExecHeaderBytesMax) {
    return exec_refusal("the request does not fit one message");
  }
  return std::vector<BufferRef>{frame_header(out.message()), request.rows};
}

Result<ExecRequest> decode_exec_request(const BufferRef& message) {
  auto frame = read_frame(message);
  if (!frame) return fail(frame.error());
  auto request = RequestReader(frame->header).run();
  if (!request) return request;
  request->rows = std::move(frame->rows);
  if (const Status status = check_request(*request); !status) return fail(status.error());
  return request;
}

}  // namespace tenzro::wire
