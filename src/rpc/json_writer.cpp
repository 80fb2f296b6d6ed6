#include "json_writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "tenzro/base/assert.hpp"
#include "tenzro/base/bytes.hpp"

namespace tenzro::rpc {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
/// Enough for any number: the longest double has 24 characters.
constexpr std::size_t kNumberBytesMax = 32;

template <typename T>
std::string_view number_text(T number, std::span<char, kNumberBytesMax> room) {
  const auto [end, error] = std::to_chars(room.data(), room.data() + room.size(), number);
  TENZRO_ASSERT(error == std::errc());
  return {room.data(), static_cast<std::size_t>(end - room.data())};
}

void append_escaped(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto byte = static_cast<std::uint8_t>(c);
  if (byte >= 0x20) {
    out.push_back(c);
    return;
  }
  out += "\\u00";
  out.push_back(kHex[byte >> 4U]);
  out.push_back(kHex[byte & 15U]);
}

/// Bytes of the well-formed sequence at the front of `text`, or 0.
std::size_t sequence_size(std::string_view text) {
  for (std::size_t size = 1; size <= 4 && size <= text.size(); ++size) {
    if (is_valid_utf8(text.substr(0, size))) return size;
  }
  return 0;
}

std::string repaired(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = sequence_size(text);
    out += size == 0 ? kReplacement : text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

}  // namespace

void append_quoted(std::string& out, std::string_view text) {
  const std::string mended = is_valid_utf8(text) ? std::string() : repaired(text);
  out.push_back('"');
  for (const char c : mended.empty() ? text : std::string_view(mended)) append_escaped(out, c);
  out.push_back('"');
}

void JsonWriter::separate() {
  if (needs_comma_) text_.push_back(',');
  needs_comma_ = true;
}

void JsonWriter::open(char bracket) {
  separate();
  text_.push_back(bracket);
  needs_comma_ = false;
}

void JsonWriter::close(char bracket) {
  text_.push_back(bracket);
  needs_comma_ = true;
}

void JsonWriter::key(std::string_view name) {
  separate();
  append_quoted(text_, name);
  text_.push_back(':');
  needs_comma_ = false;
}

void JsonWriter::value(std::string_view text) {
  separate();
  append_quoted(text_, text);
}

void JsonWriter::integer(std::uint64_t number) {
  std::array<char, kNumberBytesMax> room{};
  raw(number_text(number, room));
}

void JsonWriter::value(float number) {
  std::array<char, kNumberBytesMax> room{};
  raw(std::isfinite(number) ? number_text(number, room) : "null");
}

void JsonWriter::value(double number) {
  std::array<char, kNumberBytesMax> room{};
  raw(std::isfinite(number) ? number_text(number, room) : "null");
}

void JsonWriter::raw(std::string_view json) {
  separate();
  text_ += json;
}

void JsonWriter::base64(const BufferRef& bytes) {
  separate();
  text_.push_back('"');
  pieces_.push_back({std::move(text_), bytes});
  text_.assign(1, '"');
}

BufferRef JsonWriter::finish(const Base64Kernels& kernels) {
  pieces_.push_back({std::move(text_), {}});
  text_.clear();
  std::size_t size = 0;
  for (const Piece& piece : pieces_) {
    size += piece.text.size() + base64_encoded_size(piece.tensor.size());
  }
  BufferRef buffer = BufferRef::allocate(size);
  char* out = buffer.empty() ? nullptr : buffer.mutable_as<char>().data();
  for (const Piece& piece : pieces_) {
    out = std::copy(piece.text.begin(), piece.text.end(), out);
    if (piece.tensor.empty()) continue;
    out += base64_encode(as_u8(piece.tensor.bytes()), out, kernels);
  }
  pieces_.clear();
  return buffer;
}

}  // namespace tenzro::rpc
