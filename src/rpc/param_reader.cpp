#include "param_reader.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"
#include "tenzro/wire/uri.hpp"

namespace tenzro::rpc {
namespace {

constexpr std::string_view kNotAnInteger = "must be an integer";

/// Only digits, perhaps behind a minus sign: no fraction, no exponent.
bool is_integer_token(std::string_view token) {
  return !token.empty() && token.find_first_of(".eE") == std::string_view::npos;
}

template <typename T>
tl::expected<T, std::string> to_integer(std::string_view token) {
  if (!is_integer_token(token)) return tl::unexpected(std::string(kNotAnInteger));
  if (token == "-0") return T{0};
  T value{};
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error == std::errc() && end == token.data() + token.size()) return value;
  using Limits = std::numeric_limits<T>;
  return tl::unexpected(echo(token) + " is out of range " + std::to_string(Limits::min()) + ".." +
                        std::to_string(Limits::max()));
}

/// C0 and C1 control characters and DEL, in valid UTF-8.
bool has_control_characters(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    const bool is_c1_lead = byte == 0xC2 && i + 1 < text.size();
    if (is_c1_lead && static_cast<std::uint8_t>(text[i + 1]) < 0xA0) return true;
  }
  return false;
}

}  // namespace

tl::expected<std::uint32_t, std::string> to_u32(std::string_view token) {
  return to_integer<std::uint32_t>(token);
}

tl::expected<std::int64_t, std::string> to_i64(std::string_view token) {
  return to_integer<std::int64_t>(token);
}

tl::expected<std::uint64_t, std::string> to_u64(std::string_view token) {
  return to_integer<std::uint64_t>(token);
}

tl::expected<std::uint32_t, std::string> to_u32(const JsonNode& node) {
  if (node.kind != JsonKind::number) return tl::unexpected(std::string(kNotAnInteger));
  return to_u32(node.source);
}

const JsonNode* ParamReader::find(std::string_view name) const {
  TENZRO_ASSERT(std::any_of(method_->params.begin(), method_->params.end(),
                            [&](const Param& param) { return param.name == name; }));
  if (object_ == nullptr) return nullptr;
  const JsonNode* member = find_member(*object_, name);
  return member == nullptr || member->kind == JsonKind::null ? nullptr : member;
}

void ParamReader::refuse(std::string_view where, std::string detail) {
  if (error_) return;
  error_ = Error{ErrorCode::invalid_params, std::string(where), std::move(detail)};
}

void ParamReader::refuse_missing(std::string_view name) {
  refuse("", "missing " + std::string(name));
}

const JsonNode* ParamReader::find_string(std::string_view name) {
  const JsonNode* node = find(name);
  if (node == nullptr || node->kind == JsonKind::string) return node;
  refuse(name, "must be a string");
  return nullptr;
}

ModelId ParamReader::model_id() {
  const JsonNode* node = find("model_id");
  if (node == nullptr) {
    refuse_missing("model_id");
    return {};
  }
  if (node->kind != JsonKind::string) {
    refuse("model_id", "must be a string");
  } else if (node->text.empty() || node->text.size() > kModelIdBytesMax) {
    refuse("model_id", "must have 1 to " + std::to_string(kModelIdBytesMax) + " bytes");
  } else if (has_control_characters(node->text)) {
    refuse("model_id", "holds a control character");
  } else {
    return ModelId(node->text);
  }
  return {};
}

LayerKey ParamReader::layer_key() {
  LayerKey key;
  key.model = model_id();
  key.layer = u32("layer");
  return key;
}

ExpertKey ParamReader::expert_key() {
  ExpertKey key;
  key.model = model_id();
  key.layer = u32("layer");
  key.expert = u32("expert");
  return key;
}

std::optional<std::uint32_t> ParamReader::optional_u32(std::string_view name) {
  const JsonNode* node = find(name);
  if (node == nullptr) return std::nullopt;
  tl::expected<std::uint32_t, std::string> value = to_u32(*node);
  if (value) return *value;
  refuse(name, std::move(value.error()));
  return std::nullopt;
}

std::uint32_t ParamReader::u32(std::string_view name) {
  if (find(name) == nullptr) refuse_missing(name);
  return optional_u32(name).value_or(0);
}

std::uint32_t ParamReader::positive_u32(std::string_view name) {
  const std::uint32_t value = u32(name);
  if (value == 0) refuse("", std::string(name) + " must be >= 1");
  return value;
}

std::optional<bool> ParamReader::optional_flag(std::string_view name) {
  const JsonNode* node = find(name);
  if (node == nullptr) return std::nullopt;
  if (node->kind == JsonKind::boolean) return node->source == "true";
  refuse(name, "must be true or false");
  return std::nullopt;
}

bool ParamReader::flag_or(std::string_view name, bool absent) {
  return optional_flag(name).value_or(absent);
}

std::optional<std::string> ParamReader::optional_text(std::string_view name) {
  const JsonNode* node = find_string(name);
  if (node == nullptr) return std::nullopt;
  return std::string(node->text);
}

std::string ParamReader::text(std::string_view name) {
  if (find(name) == nullptr) refuse_missing(name);
  return optional_text(name).value_or("");
}

template <typename T, typename Convert>
std::optional<std::vector<T>> ParamReader::optional_list(std::string_view name, Convert convert) {
  const JsonNode* node = find(name);
  if (node == nullptr) return std::nullopt;
  std::vector<T> list;
  if (node->kind == JsonKind::array && node->count == 0) return list;
  if (node->kind != JsonKind::numbers) {
    refuse(name, "must be an array of integers");
    return std::nullopt;
  }
  list.reserve(node->count);
  NumberTokens tokens(*node);
  while (const std::optional<std::string_view> token = tokens.next()) {
    tl::expected<T, std::string> value = convert(*token);
    if (!value) {
      refuse(std::string(name) + '[' + std::to_string(list.size()) + ']', std::move(value.error()));
      return std::nullopt;
    }
    list.push_back(*value);
  }
  return list;
}

std::optional<std::vector<std::uint32_t>> ParamReader::optional_u32_list(std::string_view name) {
  return optional_list<std::uint32_t>(name, [](std::string_view token) { return to_u32(token); });
}

std::optional<std::vector<std::int64_t>> ParamReader::optional_i64_list(std::string_view name) {
  return optional_list<std::int64_t>(name, [](std::string_view token) { return to_i64(token); });
}

tl::expected<BufferRef, std::string> ParamReader::decode(std::string_view text) const {
  BufferRef buffer = BufferRef::allocate(base64_decoded_size(text));
  // Nothing to write to, and perhaps nothing wrong: a short text can still be a broken one.
  std::uint8_t none = 0;
  std::uint8_t* out = buffer.empty() ? &none : buffer.mutable_as<std::uint8_t>().data();
  const auto written = base64_decode(text, out, *base64_);
  if (written) return buffer.slice(0, *written);
  const std::size_t at = written.error().position;
  if (at >= text.size()) return tl::unexpected(std::string("characters are missing at the end"));
  return tl::unexpected("the character at " + std::to_string(at) + " cannot stand there");
}

std::optional<BufferRef> ParamReader::optional_base64(std::string_view name) {
  const JsonNode* node = find_string(name);
  if (node == nullptr || failed()) return std::nullopt;
  tl::expected<BufferRef, std::string> bytes = decode(node->text);
  if (bytes) return *std::move(bytes);
  refuse("invalid " + std::string(name), std::move(bytes.error()));
  return std::nullopt;
}

std::optional<BufferRef> ParamReader::optional_tensor(std::string_view name) {
  const JsonNode* node = find_string(name);
  if (node == nullptr || failed()) return std::nullopt;
  tl::expected<BufferRef, std::string> bytes = decode(node->text);
  if (bytes) return *std::move(bytes);
  refuse(name, "invalid base64: " + bytes.error());
  return std::nullopt;
}

std::optional<std::string> ParamReader::optional_blob_uri(std::string_view name) {
  const JsonNode* node = find_string(name);
  if (node == nullptr) return std::nullopt;
  const Result<wire::BlobUri> uri = wire::parse_blob_uri(node->text);
  if (uri) return std::string(node->text);
  refuse("invalid " + std::string(name), uri.error().message());
  return std::nullopt;
}

Result<Call> ParamReader::finish(Call call) {
  if (error_) return fail(std::move(*error_));
  return call;
}

}  // namespace tenzro::rpc
