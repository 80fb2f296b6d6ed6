#include "tenzro/base/base64.hpp"

#include <array>

#include "tenzro/base/assert.hpp"

namespace tenzro {
namespace {

constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kDigitCount = sizeof kDigits - 1;
static_assert(kDigitCount == 64);
/// Table entry of a character outside the alphabet: a bit that no digit's value has.
constexpr std::uint8_t kInvalid = 0x80;

constexpr std::array<std::uint8_t, 256> make_values() {
  std::array<std::uint8_t, 256> values{};
  for (std::uint8_t& value : values) value = kInvalid;
  for (std::size_t i = 0; i < kDigitCount; ++i) {
    values[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::uint8_t>(i);
  }
  return values;
}

constexpr std::array<std::uint8_t, 256> kValues = make_values();

std::uint32_t value_of(char c) {
  return kValues[static_cast<std::uint8_t>(c)];
}

std::uint8_t byte_of(std::uint32_t bits, unsigned shift) {
  return static_cast<std::uint8_t>(bits >> shift);
}

void encode_group(std::uint32_t bits, char* out) {
  out[0] = kDigits[bits >> 18U];
  out[1] = kDigits[(bits >> 12U) & 63U];
  out[2] = kDigits[(bits >> 6U) & 63U];
  out[3] = kDigits[bits & 63U];
}

std::size_t encode_scalar(const std::uint8_t* in, std::size_t n, char* out) {
  const std::size_t end = n / 3 * 3;
  for (std::size_t i = 0; i < end; i += 3) {
    const std::uint32_t bits =
        (std::uint32_t{in[i]} << 16U) | (std::uint32_t{in[i + 1]} << 8U) | std::uint32_t{in[i + 2]};
    encode_group(bits, out);
    out += 4;
  }
  return end;
}

std::size_t decode_scalar(const char* in, std::size_t n, std::uint8_t* out) {
  const std::size_t end = n / 4 * 4;
  for (std::size_t i = 0; i < end; i += 4) {
    const std::uint32_t a = value_of(in[i]);
    const std::uint32_t b = value_of(in[i + 1]);
    const std::uint32_t c = value_of(in[i + 2]);
    const std::uint32_t d = value_of(in[i + 3]);
    if (((a | b | c | d) & kInvalid) != 0) return i;
    const std::uint32_t bits = (a << 18U) | (b << 12U) | (c << 6U) | d;
    out[0] = byte_of(bits, 16);
    out[1] = byte_of(bits, 8);
    out[2] = byte_of(bits, 0);
    out += 3;
  }
  return end;
}

/// Index of the first character from `from` that is outside the alphabet, or the size.
std::size_t first_invalid(std::string_view text, std::size_t from) {
  while (from < text.size() && value_of(text[from]) != kInvalid) ++from;
  return from;
}

/// The last group, "xx==" or "xxx=". Returns the bytes written.
tl::expected<std::size_t, Base64Fault> decode_padded(std::string_view text, std::size_t at,
                                                     std::uint8_t* out) {
  const std::size_t digits = text[at + 2] == '=' ? 2 : 3;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const std::uint32_t value = value_of(text[at + i]);
    if (value == kInvalid) return tl::unexpected(Base64Fault{at + i});
    bits |= value << (18U - 6U * static_cast<unsigned>(i));
  }
  const std::uint32_t unused = digits == 2 ? 0xFFFFU : 0xFFU;
  if ((bits & unused) != 0) return tl::unexpected(Base64Fault{at + digits - 1});
  out[0] = byte_of(bits, 16);
  if (digits == 3) out[1] = byte_of(bits, 8);
  return digits - 1;
}

}  // namespace

const Base64Kernels& scalar_base64_kernels() {
  static constexpr Base64Kernels kKernels{.encode = encode_scalar, .decode = decode_scalar};
  return kKernels;
}

std::size_t base64_encode(std::span<const std::uint8_t> bytes, char* out,
                          const Base64Kernels& kernels) {
  const std::size_t bulk = kernels.encode(bytes.data(), bytes.size(), out);
  TENZRO_ASSERT(bulk <= bytes.size());
  TENZRO_ASSERT(bulk % 3 == 0);
  const std::span<const std::uint8_t> rest = bytes.subspan(bulk);
  char* end = out + bulk / 3 * 4;
  const std::size_t taken = encode_scalar(rest.data(), rest.size(), end);
  end += taken / 3 * 4;
  const std::size_t left = rest.size() - taken;
  if (left != 0) {
    const std::uint32_t second = left == 2 ? std::uint32_t{rest[taken + 1]} : 0U;
    encode_group((std::uint32_t{rest[taken]} << 16U) | (second << 8U), end);
    end[3] = '=';
    if (left == 1) end[2] = '=';
    end += 4;
  }
  return static_cast<std::size_t>(end - out);
}

std::string base64_encode(std::span<const std::uint8_t> bytes, const Base64Kernels& kernels) {
  std::string text(base64_encoded_size(bytes.size()), '\0');
  base64_encode(bytes, text.data(), kernels);
  return text;
}

tl::expected<std::size_t, Base64Fault> base64_decode(std::string_view text, std::uint8_t* out,
                                                     const Base64Kernels& kernels) {
  const bool padded = text.size() % 4 == 0 && !text.empty() && text.back() == '=';
  const std::size_t groups = text.size() / 4 - (padded ? 1U : 0U);
  const std::size_t whole = groups * 4;
  std::size_t done = kernels.decode(text.data(), whole, out);
  TENZRO_ASSERT(done <= whole);
  TENZRO_ASSERT(done % 4 == 0);
  done += decode_scalar(text.data() + done, whole - done, out + done / 4 * 3);
  if (done != whole) return tl::unexpected(Base64Fault{first_invalid(text, done)});
  if (text.size() % 4 != 0) return tl::unexpected(Base64Fault{first_invalid(text, whole)});
  const std::size_t bytes = whole / 4 * 3;
  if (!padded) return bytes;
  const auto last = decode_padded(text, whole, out + bytes);
  if (!last) return last;
  return bytes + *last;
}

}  // namespace tenzro
