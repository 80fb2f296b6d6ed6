#include "tenzro/receipts/receipt_json.hpp"

#include <span>
#include <utility>
#include <vector>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/crypto/address.hpp"
#include "tenzro/wire/flat_json.hpp"

namespace tenzro::receipts {
namespace {

constexpr std::string_view kKeyType = "Ed25519";

std::string list_text(std::span<const std::uint8_t> bytes) {
  std::string text = "[";
  for (const std::uint8_t byte : bytes) {
    if (text.size() > 1) text.push_back(',');
    text += std::to_string(byte);
  }
  return text + ']';
}

std::string key_text(std::span<const std::uint8_t> bytes) {
  return R"({"key_type":")" + std::string(kKeyType) + R"(","bytes":)" + list_text(bytes) + '}';
}

tl::unexpected<Error> refused(std::string detail) {
  return fail(ErrorCode::runtime, "receipt", std::move(detail));
}

Status read_bytes(const wire::FlatJson& json, std::string_view path, std::span<std::uint8_t> out) {
  const auto* list = wire::find_as<std::vector<std::int64_t>>(json, path);
  bool fits = list != nullptr && list->size() == out.size();
  for (std::size_t i = 0; fits && i < out.size(); ++i) {
    const std::int64_t value = (*list)[i];
    fits = std::in_range<std::uint8_t>(value);
    out[i] = static_cast<std::uint8_t>(value);
  }
  if (fits) return {};
  return refused('\'' + std::string(path) + "' must be " + std::to_string(out.size()) +
                 " integers from 0 to 255");
}

Status check_key_type(const wire::FlatJson& json, std::string_view path) {
  const auto* type = wire::find_as<std::string>(json, path);
  if (type == nullptr) return refused('\'' + std::string(path) + "' must be a string");
  if (*type != kKeyType) return refused("unsupported key type '" + echo(*type) + '\'');
  return {};
}

}  // namespace

std::string receipt_to_json(const Receipt& receipt) {
  std::string text = R"({"provider":)" + list_text(receipt.provider);
  text += R"(,"input_hash":)" + list_text(receipt.input_hash);
  text += R"(,"commitment":)" + list_text(receipt.commitment);
  text += R"(,"signature":)" + key_text(receipt.signature);
  text += R"(,"public_key":)" + key_text(receipt.public_key);
  return text + '}';
}

std::string receipt_set_to_json(const ReceiptSet& set) {
  TENZRO_ASSERT(set.experts.size() == 1);
  const ExpertReceipt& receipt = set.experts.front();
  std::string text = R"({"provider":)" + list_text(crypto::address_of(set.key));
  text += R"(,"input_hash":)" + list_text(receipt.input_hash);
  text += R"(,"commitment":)" + list_text(receipt.commitment);
  text += R"(,"rows_hash":)" + list_text(receipt.rows_hash);
  text += R"(,"blob_hash":)" + list_text(receipt.blob);
  text += R"(,"gate_type":)" + std::to_string(receipt.gate_type);
  text += R"(,"up_type":)" + std::to_string(receipt.up_type);
  text += R"(,"down_type":)" + std::to_string(receipt.down_type);
  text += R"(,"profile":)" + std::to_string(static_cast<unsigned>(set.profile));
  text += R"(,"signature":)" + key_text(set.signature);
  text += R"(,"public_key":)" + key_text(set.key);
  return text + '}';
}

Result<Receipt> receipt_from_json(std::string_view text) {
  const auto json = wire::parse_flat_json(
      text, {.bytes_max = kReceiptJsonBytesMax, .depth_max = wire::FlatJsonLimits{}.depth_max});
  if (!json) return refused(json.error());
  Receipt receipt;
  const std::pair<std::string_view, std::span<std::uint8_t>> lists[] = {
      {"provider", receipt.provider},
      {"input_hash", receipt.input_hash},
      {"commitment", receipt.commitment},
      {"signature.bytes", receipt.signature},
      {"public_key.bytes", receipt.public_key}};
  for (const std::string_view path : {"signature.key_type", "public_key.key_type"}) {
    if (Status status = check_key_type(*json, path); !status) return fail(status.error());
  }
  for (const auto& [path, bytes] : lists) {
    if (Status status = read_bytes(*json, path, bytes); !status) return fail(status.error());
  }
  return receipt;
}

}  // namespace tenzro::receipts
