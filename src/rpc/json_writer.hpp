#pragma once
/// \file
/// Writes JSON text whose large parts are tensors.
///
/// Text is gathered in pieces; a tensor is only remembered, and encoded once, straight into the
/// final buffer, when all sizes are known. Commas are put by the writer; that brackets pair and
/// that members stand in objects is the caller's to keep.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenzro/base/base64.hpp"
#include "tenzro/base/buffer.hpp"

namespace tenzro::rpc {

template <typename T>
concept UnsignedNumber = std::unsigned_integral<T> && !std::same_as<T, bool>;

class JsonWriter {
 public:
  void begin_object() { open('{'); }

  void end_object() { close('}'); }

  void begin_array() { open('['); }

  void end_array() { close(']'); }

  void key(std::string_view name);

  /// Quoted and escaped; broken UTF-8 becomes U+FFFD.
  void value(std::string_view text);

  void value(std::same_as<bool> auto flag) { raw(flag ? "true" : "false"); }

  void value(UnsignedNumber auto number) { integer(number); }

  /// The shortest text that reads back as the same value; null where it is not finite.
  void value(float number);
  void value(double number);

  void null() { raw("null"); }

  /// A complete JSON value.
  void raw(std::string_view json);
  /// A string of the bytes' base64.
  void base64(const BufferRef& bytes);

  template <typename T>
  void member(std::string_view name, const T& content) {
    key(name);
    value(content);
  }

  template <typename T>
  void nullable(std::string_view name, const std::optional<T>& content) {
    key(name);
    if (content) {
      value(std::string_view(*content));
    } else {
      null();
    }
  }

  [[nodiscard]] bool empty() const { return pieces_.empty() && text_.empty(); }

  /// Everything written, in one buffer.
  [[nodiscard]] BufferRef finish(const Base64Kernels& kernels);

 private:
  /// Text, then the base64 of a tensor.
  struct Piece {
    std::string text;
    BufferRef tensor;
  };

  void open(char bracket);
  void close(char bracket);
  void separate();
  void integer(std::uint64_t number);

  std::vector<Piece> pieces_;
  std::string text_;
  bool needs_comma_ = false;
};

/// The text as a JSON string, quotes included; broken UTF-8 becomes U+FFFD.
void append_quoted(std::string& out, std::string_view text);

}  // namespace tenzro::rpc
